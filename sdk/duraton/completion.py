"""A chat completion made of the pieces that a stream brings."""

from collections.abc import Callable, Mapping
from typing import Any

from duraton.errors import InferenceError, InferenceRefusedError
from duraton_schemas.values import STEP_OUTPUT_BYTES_MAX

TEXT_LENGTH_MAX = STEP_OUTPUT_BYTES_MAX
"""Letters of all texts together; more could not be stored."""
CHOICES_MAX = 128
CALLS_MAX = 128
"""Calls of tools in one message."""


class Completion:
    """Puts a streamed answer together, in the form that it has when it is not streamed.

    Args:
        on_text: Told each piece of the first choice's text.

    Attributes:
        answer: What has come so far.
    """

    def __init__(self, on_text: Callable[[str], object] | None = None) -> None:
        self.answer: dict[str, Any] = {"object": "chat.completion", "choices": []}
        self._on_text = on_text
        self._length = 0

    @property
    def finished(self) -> bool:
        """Whether each choice has come to its end, and there is one."""
        choices = self.answer["choices"]
        return bool(choices) and all(choice["finish_reason"] for choice in choices)

    def add(self, piece: Any) -> None:
        """Take a piece, a `chat.completion.chunk`.

        Raises:
            InferenceError: It is an error of the endpoint's, or no piece.
            InferenceRefusedError: The answer is too large to be stored.
        """
        if not isinstance(piece, dict):
            raise InferenceError("the endpoint's stream is none of a chat completion")
        error = piece.get("error")
        if error is not None:
            said = error.get("message") if isinstance(error, dict) else error
            raise InferenceError(f"the endpoint failed while it answered: {said}"[:600])
        for name, value in piece.items():
            if name == "choices":
                for choice in value if isinstance(value, list) else ():
                    self._choice(choice)
            elif name != "object" and value is not None:
                self.answer[name] = value

    def _choice(self, piece: Any) -> None:
        if not isinstance(piece, dict) or not isinstance(piece.get("index", 0), int):
            raise InferenceError("the endpoint's stream holds a choice that is none")
        choice = _at(self.answer["choices"], piece.get("index", 0), CHOICES_MAX, _new_choice)
        if piece.get("finish_reason") is not None:
            choice["finish_reason"] = piece["finish_reason"]
        delta = piece.get("delta")
        if not isinstance(delta, dict):
            return
        self._merge(choice["message"], delta)
        text = delta.get("content")
        if self._on_text is not None and choice["index"] == 0 and isinstance(text, str) and text:
            self._on_text(text)

    def _merge(self, whole: dict[str, Any], part: Mapping[str, Any]) -> None:
        """Texts go on where they ended, calls of tools by their index; else the newest counts."""
        for name, value in part.items():
            if name == "tool_calls" and isinstance(value, list):
                for call in value:
                    self._tool_call(whole.setdefault("tool_calls", []), call)
            elif isinstance(value, str) and name not in ("role", "id", "type"):
                self._length += len(value)
                if self._length > TEXT_LENGTH_MAX:
                    raise InferenceRefusedError(
                        f"the answer is above the limit of {TEXT_LENGTH_MAX} letters"
                    )
                whole[name] = (whole.get(name) or "") + value
            elif isinstance(value, dict) and isinstance(whole.get(name), dict):
                self._merge(whole[name], value)
            elif isinstance(value, dict):
                whole[name] = {}
                self._merge(whole[name], value)
            elif value is not None:
                whole[name] = value

    def _tool_call(self, calls: list[dict[str, Any]], piece: Any) -> None:
        if not isinstance(piece, dict) or not isinstance(piece.get("index", 0), int):
            raise InferenceError("the endpoint's stream holds a call of a tool that is none")
        call = _at(calls, piece.get("index", 0), CALLS_MAX, lambda _index: {})
        self._merge(call, {name: value for name, value in piece.items() if name != "index"})


def _new_choice(index: int) -> dict[str, Any]:
    return {
        "index": index,
        "message": {"role": "assistant", "content": None},
        "finish_reason": None,
    }


def _at(
    items: list[dict[str, Any]], index: int, most: int, make: Callable[[int], dict[str, Any]]
) -> dict[str, Any]:
    """The item of that index; those before it are made as well."""
    if not 0 <= index < most:
        raise InferenceError(f"the endpoint's stream counts to {index}")
    while len(items) <= index:
        items.append(make(len(items)))
    return items[index]
