"""Which kinds of words a prompt uses: what it asks to be done, with what, in which form."""

from __future__ import annotations

from ranker.features.reading import Reading

_KINDS: dict[str, str] = {
    # Acts, roughly from those that are answered in a word to those that are answered in pages.
    "classify": "classify classification categorize category label sentiment identify detect rate "
    "score true false choose select pick which yes",
    "extract": "extract parse retrieve entities keywords find",
    "translate": "translate translation english spanish french german chinese japanese portuguese "
    "italian russian korean arabic hindi traducir traduce übersetze",
    "rewrite": "rewrite rephrase paraphrase reword improve edit proofread correct grammar revise "
    "simplify shorten polish humanize unique",
    "summarize": "summarize summarise summary summaries summarizing tldr resume key takeaways",
    "fix": "fix error bug debug debugging exception traceback failed issue wrong undefined",
    "convert": "convert format reformat transform turn json csv xml yaml markdown latex",
    "explain": "explain describe define meaning mean difference compare versus vs understand "
    "overview elaborate discuss analyze analyse evaluate",
    "advise": "help suggest recommend should best advice tips improve better can could",
    "list": "list lists ideas examples suggestions options brainstorm names titles top bullet "
    "bullets enumerate",
    "compose": "write essay article blog post story poem song lyrics script letter email speech "
    "chapter novel compose draft scene dialogue biography report proposal",
    "build": "create generate make build develop design implement code program plan outline "
    "course curriculum schedule strategy table website app game business",
    "continue": "continue more next keep going rest another again finish expand extend longer",
    "play": "act role pretend roleplay you're character imagine scenario simulate",
    # Manner.
    "little": "short brief briefly concise concisely single only just simple quick quickly "
    "succinct exactly no without don't",
    "much": "detail detailed details long comprehensive complete completely full fully thorough "
    "thoroughly depth deep extensive step many every all each",
    "form": "table json csv xml markdown bullet bullets html latex numbered headings heading "
    "columns outline list yaml",
    "polite": "please thanks thank kindly hello hi hey appreciate",
    "earlier": "above previous previously earlier following below given provided attached "
    "prior last said mentioned",
    # Matter.
    "code": "python javascript typescript java html css sql code function class def import react "
    "bash regex excel vba php const var int void public return null node api django c",
    "school": "student students exam homework question answer theory essay university chapter "
    "explain teacher lesson class",
    "trade": "marketing product products customers customer business company sales brand seo "
    "market target audience service services",
    # Grammar.
    "question": "what how why who when where which whose is are do does did can could would will",
    "person": "i my me we our you your",
    "function": "the of and to a in for that with on as it by from this be or an at not have",
}
NAMES: tuple[str, ...] = (*(f"words_{kind}" for kind in _KINDS), "first_kind", "second_kind")
_OF: dict[str, tuple[int, ...]] = {}
for _number, _words in enumerate(_KINDS.values()):
    for _word in _words.split():
        _OF[_word] = (*_OF.get(_word, ()), _number)


def measure(reading: Reading) -> tuple[float, ...]:
    """How many words of each kind there are, and the kinds of the first two words that have one."""
    counts = [0.0] * len(_KINDS)
    first: list[int] = []
    for word in reading.words:
        for kind in _OF.get(word, ()):
            counts[kind] += 1.0
            if len(first) < 2:
                first.append(kind)
    return (*counts, *first, *[-1] * (2 - len(first)))
