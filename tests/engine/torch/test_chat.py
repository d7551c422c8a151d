"""Chat templates: what they make of turns, and what is said when they refuse them."""

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from engine.chat import render

#: As Gemma's: no system message, strict alternation.
STRICT = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
{% if message['role'] not in ['user', 'assistant'] %}
{{ raise_exception('what is ' + message['content']) }}{% endif %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate, got ' + message['content']) }}{% endif %}
<{{ message['role'] }}>{{ message['content'] }}{% endfor %}
{% if add_generation_prompt %}<model>{% endif %}"""
PLAIN = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def tokenizer():
    def make(template):
        made = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(models.WordLevel({"<s>": 0}, "<s>")), bos_token="<s>"
        )
        made.chat_template = template
        return made

    return make


def test_turns_end_with_the_cue_to_answer(tokenizer):
    turns = [("system", "be brief"), ("user", "hello"), ("assistant", "hi"), ("user", "why?")]
    assert render(tokenizer(PLAIN), turns) == (
        "[system]be brief[user]hello[assistant]hi[user]why?[assistant]"
    )
    assert "".join(render(tokenizer(STRICT), turns[1:]).split()) == (
        "<s><user>hello<assistant>hi<user>why?<model>"
    )


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ([("system", "secret"), ("user", "hello")], "no place for a system message"),
        ([("user", "secret"), ("user", "secret")], "roles must alternate user, assistant"),
        ([("assistant", "secret")], "roles must alternate user, assistant"),
        ([("system", "secret"), ("user", "secret"), ("user", "b")], "roles must alternate"),
        ([("user", "a"), ("tool", "secret")], r"refuses these messages \(TemplateError\)$"),
    ],
    ids=["system", "twice the same", "begins with the answer", "both", "another role"],
)
def test_refusals_say_what_the_template_takes_and_quote_nobody(tokenizer, turns, problem):
    with pytest.raises(ValueError, match=problem) as refused:
        render(tokenizer(STRICT), turns)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_no_template_and_no_messages(tokenizer):
    with pytest.raises(ValueError, match="no chat template; send a prompt"):
        render(tokenizer(None), [("user", "hello")])
    with pytest.raises(ValueError, match="messages must not be empty"):
        render(tokenizer(PLAIN), [])


def test_a_template_that_is_broken(tokenizer):
    with pytest.raises(ValueError, match=r"refuses these messages \(TemplateSyntaxError\)$"):
        render(tokenizer("{% for %}"), [("user", "hello")])
