"""Language models that people have, on any Vulkan device: GGUF files and folders of Hugging Face, by vkattn's operators.

    vkattn-lm chat MODEL                 answers, line by line
    vkattn-lm complete MODEL TEXT        goes on after a text
    vkattn-lm perplexity MODEL FILE      how well a model predicts a text
    vkattn-lm bench MODEL                tokens per second
    vkattn-lm embed FOLDER TEXT...       vectors of texts

In Python, files.open_model, model.Decoder, chat.Writer and encoder.Encoder are what the commands are made of. Files are read by
the packages gguf and safetensors, text by tokenizers and jinja2: pip install 'vkattn[lm]'.
"""
