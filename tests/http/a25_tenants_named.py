"""A tenant is named where it is read or the request is refused: other headers, parameters of the query that no route has, and
requests that name none where --default-tenant is none. And what the option says of the tenant that there is from the start."""
import subprocess
import urllib.parse

import pytest

import keyring
from a06_contract import concrete
from contract import CONTRACT
from harness import BIN, Client

NOT_NAMED, BAD = "/problems/tenant-not-named", "/problems/bad-request"
OPERATIONS = sorted(CONTRACT.operations)
BY_HEADER = sorted(keyring.BY_HEADER)
DECISION = {"user": "u", "candidates": ["a", "b"]}


def parameters(name):
    """{name: schema} of the query's parameters that the contract gives an operation."""
    found = [CONTRACT.resolve(p) for p in CONTRACT.operations[name][2].get("parameters", [])]
    return {p["name"]: p["schema"] for p in found if p["in"] == "query"}


def told(problem, otherwise=BAD):
    """(type, detail); the forms of other protocols have no types."""
    return problem.get("type", otherwise), CONTRACT.detail(problem)


def ask(api, name, query="", headers=None, expect=400):
    """The operation as harmless as it can be made."""
    query = urllib.parse.urlencode({k: v for k, v in CONTRACT.required(name).items() if f"{k}=" not in query}) + query.replace("?", "&")
    query = "?" + query.removeprefix("&") if query else ""
    verb, _, operation = CONTRACT.operations[name]
    raw = b'{"no such field": 1}' if "requestBody" in operation else None
    return api.call(verb.upper(), concrete(keyring.template_of(name)) + query, raw=raw, headers=headers, expect=expect)


# --- headers -----------------------------------------------------------------------------------------------------------

STRAYS = ["X-Tenant", "Tenant", "X-Tenant-Id", "Tenant-Id", "X-Laplaced-Tenant", "Laplaced-Tenant-Id", "x-tenant", "TENANT", "X-TenantID",
          "X_Tenant_Id", "Tenant-Name", "Laplaced_Tenant", "LaplacedTenant", "Laplaced-Tennant", "Laplaced-Tenants", "Laplaced-Request",
          "laplaced-key", "X-Laplaced"]
OTHERS = ["X-Azure-Tenant-Id", "X-Tenancy", "Tenants-Of-Mine", "X-Scope-OrgID", "X-Forwarded-For", "Te", "X-Request-Id", "Lap", "X", "Tenant-X"]


@pytest.mark.parametrize("header", STRAYS)
def test_a_header_that_looks_like_the_tenants_is_refused_by_name(api, header):
    before = api.events("default")
    problem = api.call("POST", "/select", DECISION, headers={header: "ab"}, expect=400).json
    assert problem["type"] == NOT_NAMED
    assert problem["detail"] == f'nobody reads the header "{header}": the tenant is named by the header Laplaced-Tenant'
    assert api.events("default") == before


@pytest.mark.parametrize("name", BY_HEADER)
def test_every_operation_whose_tenant_a_header_names_refuses_it(api, name):
    for more in ({}, {"Laplaced-Tenant": "default"}):
        assert told(ask(api, name, headers={"X-Tenant": "ab", **more}).json, NOT_NAMED) == \
            (NOT_NAMED, 'nobody reads the header "X-Tenant": the tenant is named by the header Laplaced-Tenant')


@pytest.mark.parametrize("header", OTHERS)
def test_headers_of_others_are_let_pass(api, header):
    api.call("POST", "/select", DECISION, headers={header: "ab"})


def test_where_the_path_names_the_tenant_no_header_does(api):
    for header in ("X-Tenant", "Laplaced-Tenant"):
        assert api.call("GET", "/tenants/default", headers={header: "ab"}).json["name"] == "default"


def test_a_long_name_is_cut_in_the_answer(api):
    problem = api.call("POST", "/select", DECISION, headers={"Laplaced-" + "x" * 3000: "ab"}, expect=400).json
    assert "Laplaced-" + "x" * 55 + '"' in problem["detail"]


# --- the query ---------------------------------------------------------------------------------------------------------

FALLBACK = "fallback"  # of /route: with it no refusal is a 400


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_refuses_parameters_that_it_does_not_have(api, name):
    takes = " and ".join(parameters(name)) or "none"
    for query, stray in (("?limt=3", "limt"), ("?x", "x"), ("?&&x", "x"), ("?=5", ""), ("?%6cimt=1", "limt"), ("?" + "&".join(f"{p}=5" for p in parameters(name) if p != FALLBACK) + "&y=1", "y")):
        problem = ask(api, name, query).json
        assert told(problem) == (BAD, f'query parameter "{stray}": this operation takes {takes}'), query


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_parameter_that_names_a_tenant_is_told_where_to_do_so(api, name):
    template = keyring.template_of(name)
    for stray in ("tenant", "tenant_id", "X-Tenant"):
        problem = ask(api, name, f"?{stray}=ab").json
        if name in BY_HEADER:
            assert told(problem, NOT_NAMED) == (NOT_NAMED, f'query parameter "{stray}": the tenant is named by the header Laplaced-Tenant')
        elif "{tenant}" in template:
            assert told(problem) == (BAD if name in CONTRACT.flags else NOT_NAMED, f'query parameter "{stray}": the tenant is the one in the path')
        else:
            assert told(problem)[0] == BAD and f'this operation takes {" and ".join(parameters(name)) or "none"}' in told(problem)[1]


@pytest.mark.parametrize("name", [n for n in OPERATIONS if parameters(n) and n not in CONTRACT.flags])
def test_the_parameters_of_the_contract_are_those_of_the_server(api, name):
    for parameter, schema in parameters(name).items():
        words = schema.get("enum") or schema.get("items", {}).get("enum")
        for word in words or ():
            ask(api, name, f"?{parameter}={word}", expect=200)
        if words:
            detail = ask(api, name, f"?{parameter}=no-word").json["detail"]
            assert detail.startswith(f"query parameter {parameter}: expected ") and all(word in detail for word in words)
        is_number = schema.get("type") == "integer"
        for value in (schema["minimum"], schema["maximum"]) if is_number else ():
            ask(api, name, f"?{parameter}={value}", expect=200)
        for value in (schema["minimum"] - 1, schema["maximum"] + 1) if is_number else ():
            detail = ask(api, name, f"?{parameter}={value}").json["detail"]
            assert detail == f"query parameter {parameter}: expected a whole number from {schema['minimum']} to {schema['maximum']}"
        if parameter != FALLBACK:
            assert ask(api, name, f"?{parameter}=1&{parameter}=1").json["detail"] == f"query parameter {parameter} stands twice"


def test_head_and_options_and_unknown_paths_are_judged_alike(api):
    api.call("HEAD", "/healthz?x=1", expect=400)
    api.call("OPTIONS", "/healthz?x=1", expect=204)
    assert api.call("GET", "/nothing?tenant=ab", expect=404).json["type"] == "/problems/no-route"


def test_a_refused_request_changes_nothing(api, name):
    for method, path, body in (("PUT", f"/tenants/{name}?x=1", {}), ("POST", "/observe?x=1", {"user": "u", "arm": "a", "reward": 1}),
                               ("DELETE", "/tenants/default?force=1", None)):
        before = api.events("default")
        api.call(method, path, body, expect=400)
        assert api.events("default") == before
    api.call("GET", f"/tenants/{name}", expect=404)


def test_a_stranger_hears_nothing_of_it(boot, tmp_path):
    (tmp_path / "keys").write_text("a-key-of-some-length-1234\n")
    api = Client(boot("--admin-key-file", str(tmp_path / "keys")))
    api.call("POST", "/select?x=1", DECISION, headers={"X-Tenant": "ab"}, expect=401)
    assert api.call("GET", "/healthz?x=1", expect=400).json["type"] == BAD


def test_a_tenants_key_is_told_of_its_own_slips_alone(boot, tmp_path):
    (tmp_path / "keys").write_text("a-key-of-some-length-1234\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    admin = Client(server, "a-key-of-some-length-1234")
    admin.put_tenant("shop")
    own = Client(server, admin.call("POST", "/tenants/shop/keys", {"roles": ["decide", "read"]}, expect=201).json["key"])
    assert own.call("POST", "/select", DECISION, headers={"X-Tenant": "shop"}, expect=400).json["type"] == NOT_NAMED
    for path in ("/tenants/default/stats?x=1", "/tenants/nobody/stats?x=1"):
        assert own.call("GET", path, expect=404).json["type"] == "/problems/no-tenant"


# --- --default-tenant ----------------------------------------------------------------------------------------------------


def names(api):
    return [t["name"] for t in api.call("GET", "/tenants").json["tenants"]]


def test_the_default_tenant_is_the_one_that_exists_from_the_start(boot):
    api = Client(boot("--default-tenant", "shop"))
    assert names(api) == ["shop"]
    api.select("u", candidates=["a", "b"], decision="d")
    assert [e["decision"] for e in api.events("shop") if e["type"] == "decided"] == ["d"]
    assert "default" in api.call("POST", "/select", DECISION, tenant="default", expect=404).json["detail"]


def test_a_folder_that_is_there_keeps_its_tenants(boot):
    server = boot()
    Client(server).select("u", candidates=["a", "b"])
    assert server.terminate() == 0
    api = Client(boot("--default-tenant", "shop"))
    assert names(api) == ["default"]
    assert api.call("POST", "/select", DECISION, expect=404).json["detail"] == 'there is no tenant "shop"'
    api.put_tenant("shop")
    api.call("POST", "/select", DECISION)
    api.call("POST", "/select", DECISION, tenant="default")


def test_without_a_default_tenant_every_request_names_its_own(boot, tmp_path):
    api = Client(boot("--default-tenant", "none"))
    assert names(api) == []
    for name in BY_HEADER:
        problem = ask(api, name).json
        assert told(problem, NOT_NAMED)[0] == NOT_NAMED and "send the header Laplaced-Tenant" in CONTRACT.detail(problem)
    assert api.call("POST", "/select", DECISION, tenant="none", expect=404).json["detail"] == 'there is no tenant "none"'
    api.put_tenant("shop")
    api.call("POST", "/select", DECISION, tenant="shop")
    key = api.call("POST", "/keys", {"roles": ["admin"]}, expect=201).json["key"]
    own = Client(api.server, Client(api.server, key).call("POST", "/tenants/shop/keys", {"roles": ["decide"]}, expect=201).json["key"])
    own.call("POST", "/select", DECISION)  # the key names it


def test_no_tenant_is_made_by_a_second_start(boot):
    server = boot("--default-tenant", "none")
    assert server.terminate() == 0
    assert names(Client(boot())) == []


@pytest.mark.parametrize("value", ["", "../x", ".x", "a b", "a" * 65, "-a"])
def test_a_name_that_no_tenant_can_have_is_no_default(value):
    for args, env in (([f"--default-tenant={value}"], {}), ([], {"LAPLACED_DEFAULT_TENANT": value})):
        if not value and env:
            continue  # an empty variable is none
        done = subprocess.run([BIN, "--check-config", *args], capture_output=True, text=True, env=env)
        assert done.returncode == 2 and "expected" in done.stderr and ("default-tenant" in done.stderr or "DEFAULT_TENANT" in done.stderr)


def test_the_configuration_tells_which_it_is():
    done = subprocess.run([BIN, "--check-config", "--default-tenant", "shop"], capture_output=True, text=True, env={}, check=True)
    assert "# flag\ndefault-tenant = shop\n" in done.stdout
    done = subprocess.run([BIN, "--check-config"], capture_output=True, text=True, env={"LAPLACED_DEFAULT_TENANT": "none"}, check=True)
    assert "# environment\ndefault-tenant = none\n" in done.stdout
