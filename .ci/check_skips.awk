# awk -v stage=STAGE -f .ci/check_skips.awk .ci/skips COUNTS: adds up what a stage left untested (COUNTS: a number, a tab
# and a reason a line) by the lines that allow it. Prints a line each, and the sum; fails where more is left out than allowed.
BEGIN { FS = " *[|] *" }
FNR == NR {
    if ($0 !~ /^#/ && $1 == stage) { rows++; most[rows] = $2; pattern[rows] = $3; why[rows] = $4 }
    next
}
{
    split($0, fields, "\t")
    sum += fields[1]
    for (row = 1; row <= rows && fields[2] !~ pattern[row]; row++) continue
    if (row <= rows) found[row] += fields[1]
    else unknown[fields[2]] += fields[1]
}
END {
    for (row = 1; row <= rows; row++) {
        if (found[row]) printf "skipped in %d test cases, of %d allowed: %s (%s)\n", found[row], most[row], pattern[row], why[row]
        if (found[row] > most[row]) failed = 1
    }
    for (reason in unknown) {
        printf "skipped in %d test cases, expected none: %s\n", unknown[reason], reason
        failed = 1
    }
    print sum + 0
    exit failed
}
