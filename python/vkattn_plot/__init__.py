"""Pictures, and a page of them, of what the vkattn command prints with --json; drawn by matplotlib."""
