import pytest

from engine.length_files import read_lengths

ROWS = [(5, 100), (7, 1), (9, 0), (30, 250)]


def write(path, suffix):
    file = path / f"lengths{suffix}"
    if suffix == ".csv":
        file.write_text(
            "model,prompt_tokens,output_tokens\n" + "".join(f"m,{p},{o}\n" for p, o in ROWS)
        )
    elif suffix == ".jsonl":
        file.write_text(
            "".join(f'{{"prompt_tokens": {p}, "output_tokens": {o}}}\n' for p, o in ROWS)
        )
    else:
        import pyarrow as pa
        from pyarrow import parquet

        prompt, output = zip(*ROWS, strict=True)
        parquet.write_table(
            pa.table({"prompt_tokens": prompt, "output_tokens": output, "text": ["x"] * 4}), file
        )
    return file


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_reads_the_same_from_every_format_and_drops_empty_answers(tmp_path, suffix):
    found = read_lengths(write(tmp_path, suffix))
    assert found.prompt_tokens.tolist() == [5, 7, 30]
    assert found.output_tokens.tolist() == [100, 1, 250]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", "must end in"),
        ("a.csv", "prompt_tokens\n3\n", "lacks output_tokens"),
        ("a.csv", "prompt_tokens,output_tokens\n3,x\n", "output_tokens must be a whole number"),
        ("a.csv", "prompt_tokens,output_tokens\n3,1.5\n", "whole number"),
        ("a.csv", "prompt_tokens,output_tokens\n3,\n", "whole number"),
        ("a.csv", "prompt_tokens,output_tokens\n3,0\n", "no row"),
        ("a.jsonl", '{"prompt": "a secret\n', "not JSON"),
        ("a.jsonl", "[1]\n", "must be an object"),
        ("a.parquet", "not parquet at all", "not a Parquet file"),
    ],
)
def test_says_what_is_wrong_and_never_quotes_the_file(tmp_path, name, text, message):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_lengths(file)
    assert "secret" not in str(caught.value)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match=r"none\.csv"):
        read_lengths(tmp_path / "none.csv")
