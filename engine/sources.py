"""Where a model comes from: the bundled one, a folder, a GGUF file, or a repository of the hub."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.bundled import BUNDLED, prepare_bundled
from engine.gguf_source import Progress, convert, is_gguf

#: What a folder of a model is made of; hub repositories often hold the same weights several times.
_PARTS = ("*.json", "*.model", "*.txt", "*.jinja", "model*.safetensors")
_PICKLED = "pytorch_model*.bin"
_CODE = "*.py"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """What an operator names.

    ``model``: the bundled model's name, a folder, a ``.gguf`` file, a hub id ``owner/name``, or a
    file there, ``owner/name/file.gguf``. ``revision``: branch, tag or commit of a hub id.
    ``trust_remote_code``: run Python that comes with the model. ``allow_pickle``: load
    ``pytorch_model.bin`` where there are no safetensors; unpickling can run code as well.
    """

    model: str
    revision: str = ""
    trust_remote_code: bool = False
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model must not be empty")
        if self.revision and not self._hub:
            raise ValueError(
                f"revision is for models of the hub, and {self.model!r} is not one; leave it out"
            )

    @property
    def _hub(self) -> bool:
        return self.model != BUNDLED and not Path(self.model).exists()

    @property
    def default_name(self) -> str:
        """What to serve it under: the hub id, or the last part of a path."""
        path = Path(self.model)
        if is_gguf(path):
            return path.stem
        return path.resolve().name if path.is_dir() else self.model

    def folder(self, cache_dir: Path, dtype: str, progress: Progress | None = None) -> Path:
        """The folder to load, downloaded or converted if it isn't there yet.

        GGUF files are converted to ``dtype``, below ``cache_dir``; the hub's files go where its
        own client keeps them (``HF_HOME``), and ``HF_HUB_OFFLINE=1`` keeps it from asking.

        Raises ``ValueError`` when there is no such model.
        """
        if self.model == BUNDLED:
            return prepare_bundled(cache_dir, progress)
        path = Path(self.model)
        if is_gguf(path):
            file = path if path.exists() else self._gguf_of_hub(progress)
            return convert(file, cache_dir, dtype=dtype, progress=progress)
        if path.is_file():
            raise ValueError(f"model: {path} is a file; give its folder, or a .gguf file")
        folder = path if path.is_dir() else self._repository(self.model, progress)
        self._check(folder)
        return folder

    def _gguf_of_hub(self, progress: Progress | None) -> Path:
        parts = Path(self.model).parts
        if len(parts) < 3 or Path(self.model).is_absolute():
            raise ValueError(
                f"model: there is no file {self.model}; of the hub, a GGUF file is named "
                "owner/name/file.gguf"
            )
        file = "/".join(parts[2:])
        return self._repository("/".join(parts[:2]), progress, (file,)) / file

    def _repository(
        self, repository: str, progress: Progress | None, parts: tuple[str, ...] = ()
    ) -> Path:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import GatedRepoError, HFValidationError, RevisionNotFoundError

        if not parts:
            parts = _PARTS + (_PICKLED,) * self.allow_pickle + (_CODE,) * self.trust_remote_code
        if progress:
            progress(f"Looking for {repository} on the hub, or in its cache")
        try:
            folder = snapshot_download(
                repository,
                revision=self.revision or None,
                allow_patterns=list(parts),
                ignore_patterns=["original/*", "onnx/*"],
            )
        except HFValidationError:
            raise ValueError(
                f"model: {self.model!r} is no folder that exists, no .gguf file, and cannot be an "
                "id on the hub (owner/name)"
            ) from None
        except RevisionNotFoundError:
            raise ValueError(
                f"revision: {repository} has no branch, tag or commit {self.revision!r}"
            ) from None
        except GatedRepoError:
            raise ValueError(
                f"model: {repository} is gated; accept its terms on the hub and set HF_TOKEN"
            ) from None
        except Exception as error:  # a missing repository, no network, a server that is down
            raise ValueError(
                f"model: {self.model!r} is no folder, and as an id on the hub it could not be had "
                f"({type(error).__name__}){_why_offline()}"
            ) from error
        return Path(folder)

    def _check(self, folder: Path) -> None:
        if not (folder / "config.json").is_file():
            found = sorted(file.name for file in folder.glob("*.gguf"))
            raise ValueError(
                f"model: {folder} has no config.json, so it is no Hugging Face model"
                + (f"; name one of its files: {', '.join(found)}" if found else "")
            )
        if any(folder.glob("model*.safetensors")) or self.allow_pickle:
            return
        pickled = any(folder.glob(_PICKLED))
        raise ValueError(
            f"model: {folder} has no weights as safetensors (model*.safetensors)"
            + (
                ", only pickled ones, which can run code when they are loaded; convert them with "
                "save_pretrained, or pass --allow-pickle if you trust them"
                if pickled
                else ""
            )
        )


def _why_offline() -> str:
    from huggingface_hub import constants

    if not constants.HF_HUB_OFFLINE:
        return "; check the id, the network, and HF_TOKEN for private ones"
    where = os.fspath(constants.HF_HUB_CACHE)
    return f"; HF_HUB_OFFLINE is set, so only what is in {where} is found"
