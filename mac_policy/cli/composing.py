"""Composing a command's options with Hydra. Every mistake of the command line is a ValueError of one line.

Hydra's own messages take several lines and leave out what is allowed, so options are checked before Hydra reads them.
"""

from __future__ import annotations

import itertools
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from string import Template
from typing import Any, NoReturn, cast

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from hydra.version import setbase
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mac_policy.cli.command import Command
from mac_policy.cli.listing import settings_text
from mac_policy.cli.nodes import GROUPS, store_nodes, store_own
from mac_policy.cli.option_names import check_key
from mac_policy.common.checks import check_choice


def configs() -> Path:
    """The folder of configurations: of the installed package, or of the checkout."""
    installed = Path(__file__).parent / "configs"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "configs"


class Parser(ArgumentParser):
    """Flags of the command line, with errors of one line."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def parse(options: Sequence[str]) -> Namespace:
    """The flags, and the options as `key=value`."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--settings", nargs="?", const="", metavar="NAME")
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--cfg", "-c", choices=["job", "hydra", "all"])
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--package", "-p")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("overrides", nargs="*")
    flags, unknown = parser.parse_known_intermixed_args(options)
    if unknown:
        flag, allowed = unknown[0].partition("=")[0], [name for name in parser._option_string_actions if name[1] == "-"]
        near = get_close_matches(flag, allowed, n=1, cutoff=0.8)
        hint = f"did you mean {near[0]!r}?" if near else f"options have no dashes: {flag.strip('-')}=value"
        raise ValueError(f"unknown flag {flag!r}; allowed are {', '.join(map(repr, allowed))}; {hint}")
    for flag in ("package", "resolve"):
        if getattr(flags, flag) and not flags.cfg:
            raise ValueError(f"--{flag} says what --cfg shows: write --cfg job --{flag}, or leave it out")
    return flags


@contextmanager
def one_line() -> Iterator[None]:
    """Errors of Hydra and OmegaConf become a ValueError of one line."""
    try:
        yield
    except OverrideParseException as error:
        raise ValueError(f"{error.override!r} cannot be read as key=value: {remedy(error.override)}") from error
    except OmegaConfBaseException as error:
        raise ValueError(f"{error.full_key or 'the configuration'}: {first_line(error)}") from error
    except MissingConfigException as error:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        if not group:
            raise
        allowed = ", ".join(map(repr, error.options or []))
        raise ValueError(
            f"the default {group}={name} is not installed: give {group}=, one of {allowed} or your own as module:NAME"
        ) from error
    except RecursionError as error:
        raise ValueError("the options hold lists or mappings that are nested too deeply") from error
    except HydraException as error:
        cause = f": {first_line(error.__cause__)}" if error.__cause__ else ""
        raise ValueError(f"{' '.join(str(error).split())}{cause}") from error


def remedy(text: str) -> str:
    """What is wrong with the text of an option, or how options are written."""
    key, sign, value = text.partition("=")
    if not sign:
        return "there is no ="
    for opening, closing in ("[]", "{}", "()"):
        if value.count(opening) != value.count(closing):
            return f"{opening} and {closing} do not match"
    if any(value.count(quote) % 2 for quote in "'\""):
        return "a quotation mark is missing"
    quoted = f"\"{key}='a, b'\""
    return f"write a list as {key}=[a,b], and a text with spaces, commas or brackets in two pairs of quotes, {quoted}"


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


@contextmanager
def hydra_of(command: Command, config_dir: str | None = None) -> Iterator[tuple[Hydra, str]]:
    """Hydra over the configurations of a command, and the name of the first one."""
    folder, _, name = f"/{command.config}".rpartition("/")
    search_path = create_config_search_path(f"file://{configs()}{folder}")
    if config_dir is not None:
        if not Path(config_dir).is_dir():
            raise ValueError(f"--config-dir {config_dir}: there is no such folder")
        search_path.prepend("command-line", f"file://{Path(config_dir).absolute()}")
    GlobalHydra.instance().clear()
    setbase(None)
    store_nodes()
    try:
        with one_line():
            yield Hydra.create_main_hydra2(name.removeprefix("_"), search_path), name
    finally:
        GlobalHydra.instance().clear()


def compose(command: Command, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The options of a command as plain values, checked."""
    with hydra_of(command) as (hydra, name):
        checked = check_overrides(hydra, name, command, overrides)
        config = hydra.compose_config(name, checked, run_mode=RunMode.RUN)
        return plain(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))


def plain(config: DictConfig) -> dict[str, Any]:
    """The composed options as plain values."""
    with one_line():
        return cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))


def run_with_hydra(command: Command, task: Callable[[DictConfig], None], options: Sequence[str]) -> None:
    """Run the task with the composed options, with -m once for each element of the sweep."""
    flags = parse(options)
    with hydra_of(command, flags.config_dir) as (hydra, name):
        if flags.help:
            template = Template(compose_defaults(hydra, name).hydra.help.template)
            print(template.substitute().rstrip())
            return
        if flags.settings is not None:
            choices = compose_defaults(hydra, name).hydra.runtime.choices
            print(settings_text([group for group in GROUPS if group in choices], flags.settings))
            return
        overrides = check_overrides(hydra, name, command, flags.overrides, sweep=flags.multirun)
        if flags.cfg:
            hydra.show_cfg(name, overrides, flags.cfg, flags.package, flags.resolve)
        elif flags.multirun:
            hydra.multirun(name, task, overrides)
        else:
            hydra.run(name, task, overrides)


def compose_defaults(hydra: Hydra, name: str) -> DictConfig:
    """The configuration without overrides; where its default task is not installed, with one that is."""
    try:
        return hydra.compose_config(name, [], RunMode.RUN)
    except MissingConfigException as error:
        group = str(error.missing_cfg_file).rpartition("/")[0]
        if not (group and error.options):
            raise
        return hydra.compose_config(name, [f"{group}={error.options[0]}"], RunMode.RUN)


def check_overrides(
    hydra: Hydra, name: str, command: Command, overrides: Sequence[str], sweep: bool = False
) -> list[str]:
    """The overrides as Hydra takes them: present names, no plus where a setting exists. ValueError for any other."""
    loader = cast(ConfigLoaderImpl, hydra.config_loader)
    parsed = [read(text, command, sweep) for text in overrides]
    groups = [override for override in parsed if loader.get_group_options(override.key_or_group)]
    choices = [chosen(loader, group) for group in groups]
    configs = [hydra.compose_config(name, list(each), RunMode.RUN) for each in itertools.product(*choices)]
    for override in parsed:
        if override not in groups:
            check_key(override.key_or_group, configs, command.open)
    return [text_of(override, command.open if override not in groups else ()) for override in parsed]


def read(text: str, command: Command, sweep: bool) -> Override:
    """An override with the present name of its option."""
    override = OverridesParser.create().parse_overrides([text])[0]
    key = override.key_or_group
    if not key:
        raise ValueError(f"{text!r} cannot be read as key=value: there is no key")
    if override.is_delete():
        raise ValueError(f"{text}: options cannot be removed; write {key}=value")
    if override.package is not None:
        raise ValueError(f"{text}: options have no packages; write {key}=value")
    if override.is_sweep_override() and not sweep:
        value = text.partition("=")[2]
        raise ValueError(f"{text} is a sweep: add -m to run once for each value, or write {key}=[{value}] for a list")
    if key in command.renamed:
        print(f"warning: the option {key} is called {command.renamed[key]} now", file=sys.stderr)
    override.key_or_group = command.renamed.get(key, command.aliases.get(key, key))
    return override


def chosen(loader: ConfigLoaderImpl, group: Override) -> list[str]:
    """The choices of a group that are swept over, mostly one, as overrides."""
    key = group.key_or_group
    names = list(group.sweep_string_iterator()) if group.is_sweep_override() else [str(group.value())]
    names = [name.replace("\\:", ":") for name in names]
    for each in names:
        if each not in loader.get_group_options(key):
            store_own(key, each)
    return [f"{key}={check_choice(key, each, loader.get_group_options(key))}" for each in names]


def text_of(override: Override, open_keys: Sequence[str]) -> str:
    """An override of a setting that exists; of an open setting one that adds or replaces."""
    key, value = override.key_or_group, str(override.input_line).partition("=")[2]
    return f"{'++' if any(f'{key}.'.startswith(f'{each}.') for each in open_keys) else ''}{key}={value}"
