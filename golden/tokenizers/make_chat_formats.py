"""Writes chat_formats.jsonl: conversations as transformers renders them with the chat templates of published models.

    python make_chat_formats.py TEMPLATES

TEMPLATES is a folder with a file NAME.jinja for each row of the table below. The templates belong to their authors, so
they are not part of this repository. Get each one from the model that the row names (the chat_template of its
tokenizer_config.json); the SHA-256 says whether it is the right text.
"""
import hashlib
import json
import sys
from pathlib import Path

import transformers

import chats

HERE = Path(__file__).resolve().parent
EMBEDDED = HERE.parent / "models" / "target"

# Name, the format that it renders, where it is from, the SHA-256 of its text.
TEMPLATES = [
    ("llama3", "Llama 3", "Meta-Llama-3-8B-Instruct",
     "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122"),
    ("llama3_first", "Llama 3", "Meta-Llama-3-8B-Instruct, as first published",
     "b48c47f6443892716176eb200bf4ef108f64e06ca26ed0fa8ebc0a4b3992fcb2"),
    ("llama3_prompt_is_false", "Llama 3", "fine-tunes of Llama 3",
     "47d5a7b4840c2ff2dfa0828b2465a654bef3a6cdfe032e5e105f395e4ceee812"),
    ("llama3.1", "Llama 3.1", "Llama-3.1-8B-Instruct and Llama-3.3-70B-Instruct",
     "e10ca381b1ccc5cf9db52e371f3b6651576caee0a630b452e2816b2d404d4b65"),
    ("llama3.2", "Llama 3.1", "Llama-3.2-1B-Instruct and Llama-3.2-3B-Instruct",
     "5816fce10444e03c2e9ee1ef8a4a1ea61ae7e69e438613f3b17b69d0426223a4"),
    ("chatml", "ChatML", "many fine-tunes",
     "153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3"),
    ("chatml_escaped", "ChatML", "fine-tunes; its line ends are spelled \\n",
     "fcf7a096fe99a48fd9ad2b250bf9237e96e8f48bffec1c7ea4d3f225176cd40e"),
    ("chatml_prompt_is_false", "ChatML", "fine-tunes",
     "58c1a1f04baa7adaeaba1f90267c3d57d9396f0c1f0129bdde9e76d3c6784af7"),
    ("chatml_bos", "ChatML after BOS", "fine-tunes of Llama 3",
     "a805e50fed68938a076b07e2e602639611b50b1ced0e50f11eb92f1ba25be4dc"),
    ("smollm2", "SmolLM2", "SmolLM2-Instruct",
     "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"),
    ("qwen2", "Qwen2", "Qwen2-Instruct, and fine-tunes of Llama",
     "793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb"),
    ("qwen2.5", "Qwen2.5", "Qwen2.5-7B-Instruct",
     "cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f"),
]


def normalised(text):
    """What Jinja makes no difference for: CRLF is a line end like LF, and one at the end of the text is dropped."""
    return text.replace("\r\n", "\n").removesuffix("\n")


def fnv1a(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % 2 ** 64
    return value


def template_line(name, form, source, text):
    """One template: its identity, and what it renders."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(str(EMBEDDED))
    tokenizer.chat_template = text
    rendered = []
    for messages in chats.format_conversations():
        rendered.append({"messages": messages,
                         "text": tokenizer.apply_chat_template(messages, tokenize=False, date_string=chats.DATE,
                                                               add_generation_prompt=True)})
    text = normalised(text)
    return {"template": name, "source": source, "format": form, "length": len(text.encode()),
            "fnv1a": f"{fnv1a(text):016x}", "chats": rendered}


def main():
    folder = Path(sys.argv[1])
    lines = []
    for name, form, source, wanted in TEMPLATES:
        data = (folder / f"{name}.jinja").read_bytes()
        found = hashlib.sha256(data).hexdigest()
        if found != wanted:
            sys.exit(f"{name}.jinja has the SHA-256 {found}, not {wanted}")
        lines.append(template_line(name, form, source, data.decode()))
    config = json.loads((EMBEDDED / "tokenizer_config.json").read_text(encoding="utf-8"))
    lines.append(template_line("embedded", "Llama 3.1", "the embedded models", config["chat_template"]))
    (HERE / "chat_formats.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines),
                                             encoding="utf-8", newline="\n")
    print(len(lines), "templates,", sum(len(line["chats"]) for line in lines), "chats")


if __name__ == "__main__":
    main()
