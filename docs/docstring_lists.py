"""An extension of griffe: a blank line before every list of a docstring, as Markdown requires."""

import re
from typing import Any

import griffe


class DocstringLists(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^(?!\s*- )(.*\S.*)\n(?=\s*- )", r"\1\n\n", obj.docstring.value, flags=re.M)
