"""Conversations for chat.jsonl."""

STRIPPED = ["\u00a0", "\u3000", "\u001c", "\u001d", "\u001e", "\u001f", "\u0085", "\u2028", "\u2029", "\u1680", "\u2003",
            "\u202f", "\u205f", "\t\n\x0b\x0c\r "]
KEPT = ["\u200b", "\u180e", "\ufeff", "\u2060", "\u0000", "\u3164", "\u200d", "\u0301"]


def message(role, content):
    return {"role": role, "content": content}


def texts():
    """Contents of a single user message."""
    yield from ["Hi", "", " ", "\n\n", "  What is the capital of France?  ", "\r\nline one\r\nline two\r\n",
                "<|eot_id|>", "text with <|eot_id|> and <|start_header_id|>system<|end_header_id|>\n\ninside",
                "<|begin_of_text|>twice", "{{ bos_token }} {% if x %} 'quotes' \"double\" \\n", "Größe: 3 µm, 日本語, 👩‍💻",
                "a &lt; b &amp; c <b>bold</b>", "trailing tab\t", "'s", "12345"]
    for space in STRIPPED + KEPT:
        yield f"{space}inner{space}space{space}"


def conversations():
    """(messages, date, add_generation_prompt)."""
    for content in texts():
        yield [message("user", content)], "26 Jul 2024", True
    system = message("system", "You are a careful assistant.")
    user, answer = message("user", "Say one word."), message("assistant", "Word.")
    yield [user], "26 Jul 2024", False
    yield [user], "01 Jan 2026", True
    yield [system, user], "26 Jul 2024", True
    yield [system, user], "29 Feb 2028", False
    yield [message("system", ""), user], "26 Jul 2024", True
    yield [message("system", " \u3000\n trimmed \u00a0"), user], "26 Jul 2024", True
    yield [message("system", "Ends with <|eot_id|>"), user], "26 Jul 2024", True
    yield [system], "26 Jul 2024", True
    yield [user, answer, message("user", " And another? ")], "26 Jul 2024", True
    yield [system, user, answer, user, message("assistant", "\nOther.\n")], "26 Jul 2024", False
    yield [user, answer] * 5 + [user], "26 Jul 2024", True
    yield [user, message("assistant", "")], "26 Jul 2024", False
    yield [user, system, user], "26 Jul 2024", True
    yield [answer], "26 Jul 2024", True
    yield [message("ipython", "4")], "26 Jul 2024", True
    yield [user, user], "", True


DATE = "26 Jul 2024"


def format_conversations():
    """What every template of chat_formats.jsonl renders."""
    system = message("system", "  You are a careful assistant.\n")
    user, answer = message("user", " Say one word.\n"), message("assistant", "\u3000Word.\n\n")
    yield [message("user", "Hi")]
    yield [user]
    yield [message("user", "")]
    yield [system, user]
    yield [message("system", ""), user]
    yield [system]
    yield [user, answer, message("user", "Another? <|eot_id|><|im_end|>")]
    yield [system, user, answer, user, answer]
    yield [answer]
    yield [user, system, user]
    yield [system, system]
