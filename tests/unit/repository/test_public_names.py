"""The public face: `fairlane`, `fairlane.errors`, `fairlane.channels`."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from dispatcher.model.service_settings import Setting, globals_after, globals_of
from dispatcher.model.task import PushTask
from producers.client import AsyncPushClient, PushClient
from producers.control.service_controls import ServiceControls
from producers.handle import AsyncTaskHandle, TaskHandle
from producers.outcomes.dead_letters import AsyncDeadLetterBox, DeadLetterBox

FACES = [(AsyncPushClient, PushClient), (AsyncTaskHandle, TaskHandle), (AsyncDeadLetterBox, DeadLetterBox)]
ROOT = Path(__file__).parents[3]
PUBLIC = ("fairlane", "fairlane.errors", "fairlane.channels")


def homes_of(name: str) -> dict[str, str]:
    """The public names of a module, and the modules that define them: as type checkers see it."""
    source = Path(str(import_module(name).__file__)).read_text(encoding="utf-8")
    (block,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_modules_list_what_they_have(name: str) -> None:
    """To people and to type checkers, which see the imports under TYPE_CHECKING only."""
    module, homes = import_module(name), homes_of(name)
    for public, home in homes.items():
        assert getattr(module, public) is getattr(import_module(home), public)
    assert set(module.__all__) - {"__version__"} == set(homes)
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, public) is not None for public in module.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_all_errors_that_the_client_is_documented_to_raise_are_public() -> None:
    documented = " ".join(
        inspect.getdoc(member) or ""
        for face in (PushClient, TaskHandle, AsyncPushClient, PushTask)
        for _, member in inspect.getmembers(face)
    )
    named = {
        name for name in vars(import_module("dispatcher.model.errors")) if name in documented and name[0].isupper()
    }
    assert named - {"DECODING_ERRORS"} <= set(homes_of("fairlane.errors"))
    assert {"TimedOut", "LimitReached", "AudienceMismatch", "Refused"} <= named


@pytest.mark.parametrize(("face", "sync"), FACES)
def test_the_async_client_has_all_methods_with_the_same_parameters(face: type, sync: type) -> None:
    methods = {name for name, member in inspect.getmembers(sync, inspect.isroutine) if not name.startswith("_")}
    for name in methods - {"connect", "connect_async"}:
        ours, theirs = inspect.signature(getattr(sync, name)), inspect.signature(getattr(face, name))
        assert [(p.name, p.kind, p.default) for p in theirs.parameters.values()] == [
            (p.name, p.kind, p.default) for p in ours.parameters.values()
        ]
        assert inspect.iscoroutinefunction(inspect.unwrap(getattr(face, name), stop=inspect.iscoroutinefunction))
        assert inspect.getdoc(getattr(face, name))
        assert name in dir(face)


def test_a_push_task_takes_for_type_checkers_what_it_has() -> None:
    """The signature is written twice: pydantic's is narrower than what it accepts."""
    tree = ast.parse(inspect.getsource(PushTask))
    written = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    defaults = {
        argument.arg: None if default is None else ast.literal_eval(default)
        for argument, default in zip(written.args.kwonlyargs, written.args.kw_defaults, strict=True)
    }
    fields = {name: None if field.is_required() else field.default for name, field in PushTask.model_fields.items()}
    assert defaults == fields


def test_set_tiers_takes_what_globals_gives() -> None:
    stored = list[Setting]()
    controls = ServiceControls(stored.extend, lambda: 0)
    controls.set_tiers(6, 2.5, 1)
    controls.weigh_app("shop", 2.5)
    found = globals_after(globals_of({}), stored)
    controls.set_tiers(**found.tier_weights)
    assert globals_after(globals_of({}), stored) == found
    assert (found.tier_weights["medium"], found.app_weights) == (2.5, {"shop": 2.5})


def python(*arguments: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def test_our_own_modules_import_without_a_warning() -> None:
    code = "import fairlane; from fairlane import *; from fairlane.channels import *; import consumers.delivery.courier"
    done = python("-W", "error", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_fairlane_loads_no_server_client() -> None:
    loaded = "print(sorted({'pulsar', 'redis', 'pydantic'} & set(sys.modules)))"
    code = f"import sys, fairlane, fairlane.errors, fairlane.channels; {loaded}"
    done = python("-c", code)
    assert done.stdout == "[]\n"


def undescribed(node: ast.ClassDef) -> list[str]:
    """Fields of a class without a text under them."""
    pairs = zip(node.body, [*node.body[1:], None], strict=True)
    fields = [(field, text) for field, text in pairs if isinstance(field, ast.AnnAssign)]
    return [
        f"{node.name}.{ast.unparse(field.target)}"
        for field, text in fields
        if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant))
    ]


def test_every_field_of_a_public_class_is_described() -> None:
    """In the sources, where editors look."""
    homes = {(home, name) for module in PUBLIC for name, home in homes_of(module).items()}
    missing: list[str] = []
    for module in {home for home, _ in homes} - {"fairlane.settings"}:  # settings have descriptions of their own
        tree = ast.parse(Path(str(import_module(module).__file__)).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and (module, node.name) in homes:
                missing += undescribed(node)
    assert not missing
