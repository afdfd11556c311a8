use super::*;
use cairn_engine::command::RunLimits;

fn global(file: &Path) -> Global {
    Global {
        config: Some(file.to_owned()),
        ..Global::default()
    }
}

fn settings(
    toml: &str,
    variables: &[(&str, &str)],
    flags: &[(&str, &str, &str)],
) -> Result<Loaded<Settings>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cairn.toml");
    std::fs::write(&file, toml).unwrap();
    let environment = Environment::of(variables.iter().copied());
    let flags: Vec<_> = flags
        .iter()
        .map(|(f, p, v)| (*f, *p, (*v).to_owned()))
        .collect();
    let loaded = load(&global(&file), &environment, &flags);
    loaded.map_err(|error| {
        assert_eq!(error.code, crate::error::USAGE);
        error
            .message
            .replace(&file.display().to_string(), "cairn.toml")
    })
}

#[test]
fn without_anything_there_is_the_offline() {
    let loaded = settings("", &[], &[]).unwrap();
    assert_eq!(loaded.config.default_model(), "offline");
    assert_eq!(loaded.config.store.path, None);
    let error = loaded.config.store.file().unwrap_err();
    assert_eq!(error.code, crate::error::USAGE);
    assert!(error.hint.contains("--store"), "{error}");
    assert_eq!(
        loaded.config.registry().names().collect::<Vec<_>>(),
        ["offline"]
    );
}

#[test]
fn flags_count_more_than_variables_and_these_more_than_the_file() {
    let file = "store.path = 'file.db'\nworkspace.path = 'file'\nmodel.pace = '1s'";
    let variables = [("CAIRN_STORE", "variable.db"), ("CAIRN_MODEL__PACE", "2s")];
    let flags = [("--pace", "model.pace", "3s")];
    let loaded = settings(file, &variables, &flags).unwrap();
    assert_eq!(loaded.config.workspace.path, Path::new("file"));
    assert_eq!(loaded.config.store.file(), Ok(Path::new("variable.db")));
    assert_eq!(loaded.config.model.pace, Duration::from_secs(3));
    assert_eq!(
        loaded.origin("store.path").to_string(),
        "variable CAIRN_STORE"
    );
    assert_eq!(loaded.origin("model.pace").to_string(), "flag --pace");
}

#[test]
fn commands_allow_more_turns_than_runs_unless_settings_name_a_number() {
    let of = |file: &str, variables: &[(&str, &str)]| {
        let limits = CommandLimits::of(&settings(file, variables, &[]).unwrap());
        (limits.max_tool_turns, limits.max_turns)
    };
    assert_eq!(of("", &[]), (100, 500));
    assert_eq!(of("run.max_tool_turns = 10", &[]), (10, 500));
    assert_eq!(of("", &[("CAIRN_RUN__MAX_TURNS", "50")]), (100, 50));
    let others = settings("", &[], &[]).unwrap().config.run.limits();
    assert_eq!(others, RunLimits::default());
}

#[test]
fn a_key_makes_openai_the_default_and_is_never_shown() {
    let key = [("OPENAI_API_KEY", "sk-canary-7")];
    let loaded = settings("", &key, &[]).unwrap();
    assert_eq!(loaded.config.default_model(), "openai");
    let registry = loaded.config.registry();
    assert_eq!(registry.default_name(), Some("openai"));
    assert!(registry.get("offline").is_ok());
    let shown = format!("{}{:?}", loaded.show(), loaded.config);
    assert!(
        shown.contains("models.openai.api_key") && !shown.contains("canary"),
        "{shown}"
    );

    let chosen = settings("model.default = 'offline'", &key, &[]).unwrap();
    assert_eq!(chosen.config.default_model(), "offline");
}

#[test]
fn a_key_makes_anthropic_the_default_unless_openai_is_there() {
    let key = ("ANTHROPIC_API_KEY", "sk-canary-8");
    let url = ("ANTHROPIC_BASE_URL", "https://proxy.example/v1");
    let loaded = settings("", &[key, url, ("ANTHROPIC_MODEL", "claude-x")], &[]).unwrap();
    assert_eq!(loaded.config.default_model(), "anthropic");
    let model = loaded.config.registry().get("").unwrap();
    let info = model.describe();
    assert_eq!(
        (info.provider.as_str(), info.name.as_str()),
        ("anthropic", "claude-x")
    );
    let shown = format!("{}{:?}{model:?}", loaded.show(), loaded.config);
    assert!(
        shown.contains("https://proxy.example/v1/messages"),
        "{shown}"
    );
    assert!(!shown.contains("canary"), "{shown}");

    let both = settings("", &[key, ("OPENAI_API_KEY", "sk-canary-7")], &[]).unwrap();
    assert_eq!(both.config.default_model(), "openai");
    let registry = both.config.registry();
    assert_eq!(
        registry.get("anthropic").unwrap().describe().window_tokens,
        200_000
    );
}

#[test]
fn a_model_is_configured_in_full_and_its_headers_are_secret() {
    let file = "\
[models.far]
provider = 'anthropic'
base_url = 'https://models.example'
model = 'm'
headers = { x-tenant = 'canary-header' }
connect_timeout = '1s'
first_byte_timeout = '2s'
idle_timeout = '3s'
total_timeout = '4s'
window_tokens = 9000
max_output_tokens = 100
vision = true
parallel_tool_calls = false
omit = ['temperature', 'cache_control']
input_usd_per_million = 1.5
cached_input_usd_per_million = 0.15
output_usd_per_million = 6";
    let loaded = settings(file, &[], &[]).unwrap();
    let model = loaded.config.registry().get("far").unwrap();
    let info = model.describe();
    assert_eq!((info.window_tokens, info.vision), (9_000, true));
    let prices = info.prices.unwrap();
    assert_eq!(
        (prices.input, prices.cached_input),
        (1_500_000_000, 150_000_000)
    );
    assert_eq!(
        (prices.cache_write, prices.output),
        (1_500_000_000, 6_000_000_000)
    );
    let shown = format!("{}{:?}{model:?}", loaded.show(), loaded.config);
    assert!(shown.contains("x-tenant"), "{shown}");
    let model = format!("{model:?}");
    assert!(
        model.contains("parallel_tool_calls: Some(false)"),
        "{model}"
    );
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn limits_of_all_models_reach_each_of_them() {
    let file = "[model]\nmax_reply_bytes = 2048\nmax_retries = 3\n[models.near]\nmodel = 'm'";
    let loaded = settings(file, &[], &[]).unwrap();
    let near = loaded.config.registry().get("near").unwrap();
    let shown = format!("{near:?}");
    assert!(shown.contains("max_reply_bytes: 2048"), "{shown}");
    assert_eq!(loaded.config.model.retry().max_retries, 3);
    let shown = settings("", &[], &[]).unwrap().show();
    for line in ["max_reply_bytes = 1048576", "max_retries = 8"] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn compaction_is_set_as_a_share_of_the_window() {
    let loaded = settings("", &[], &[]).unwrap();
    let default = loaded.config.compaction.config();
    assert_eq!(default, cairn_engine::decide::Compaction::default());
    let shown = loaded.show();
    for line in ["at = 0.7", "keep_turns = 3"] {
        assert!(shown.contains(&format!("compaction.{line} ")), "{shown}");
    }
    let file = "[compaction]\nat = 0.55\nkeep_turns = 5";
    let loaded = settings(file, &[("CAIRN_COMPACTION__KEEP_TURNS", "2")], &[]).unwrap();
    let set = loaded.config.compaction.config();
    assert_eq!((set.at_permille, set.keep_turns), (550, 2));
    for (line, fault) in [
        ("at = 0.05", "compaction.at is 0.05 (allowed: 0.1 to 0.95)"),
        ("at = 1", "compaction.at is 1.0 (allowed: 0.1 to 0.95)"),
        (
            "keep_turns = 0",
            "compaction.keep_turns is 0 (allowed: 1 to 50)",
        ),
    ] {
        let error = settings(&format!("[compaction]\n{line}"), &[], &[]).unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn knowledge_is_found_as_the_settings_say() {
    let loaded = settings("", &[], &[]).unwrap();
    let default = loaded.config.knowledge.config();
    assert_eq!(default, cairn_orchestrator::KnowledgeConfig::default());
    let shown = loaded.show();
    for line in [
        "scorer = \"bm25\"",
        "min_score = 0.0",
        "index_bytes = 268435456",
    ] {
        assert!(shown.contains(&format!("knowledge.{line} ")), "{shown}");
    }
    let file = "[knowledge]\nscorer = 'dice'\nmin_score = 0.25\nindex_bytes = 1048576";
    let loaded = settings(file, &[("CAIRN_KNOWLEDGE__MIN_SCORE", "0.5")], &[]).unwrap();
    let set = loaded.config.knowledge.config();
    assert_eq!(set.scorer, cairn_orchestrator::Scorer::Dice);
    assert_eq!((set.min_score, set.index_bytes), (0.5, 1024 * 1024));
    for (line, fault) in [
        (
            "scorer = 'bm52'",
            "knowledge.scorer is \"bm52\", did you mean bm25? (allowed: bm25, dice)",
        ),
        (
            "min_score = 1.5",
            "knowledge.min_score is 1.5 (allowed: 0.0 to 1.0)",
        ),
        (
            "index_bytes = 1000",
            "knowledge.index_bytes is 1000 (allowed: 1048576 to 1099511627776)",
        ),
    ] {
        let error = settings(&format!("[knowledge]\n{line}"), &[], &[]).unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn an_executor_says_what_it_can_do() {
    let executor = |toml: &str, variables: &[(&str, &str)]| {
        let file = format!("[executor]\n{toml}");
        settings(&file, variables, &[]).map(|loaded| loaded.config.executor)
    };
    let none = executor("", &[]).unwrap().config();
    assert_eq!(none, cairn_executor::Config::default());
    assert!(none.name.is_empty() && none.tools.is_empty() && none.capabilities.is_empty());
    let file = "name = 'gpu-1'\ntools = ['read_file', 'github__*']\n\
        capabilities = ['gpu', 'region:eu', 'web_search>=5']\nlabels = { zone = 'a' }";
    let some = executor(file, &[("CAIRN_EXECUTOR__NAME", "gpu-2")]).unwrap();
    let some = some.config();
    assert_eq!(some.name, "gpu-2");
    assert_eq!(some.tools, ["read_file", "github__*"]);
    let levels = [("gpu", 1), ("region:eu", 1), ("web_search", 5)];
    let levels = levels.map(|(name, level)| (name.to_owned(), level));
    assert_eq!(some.capabilities, BTreeMap::from(levels));
    assert_eq!(some.labels["zone"], "a");

    let shown = settings(&format!("[executor]\n{file}"), &[], &[]).unwrap();
    let shown = shown.show();
    let line = "executor.capabilities = [\"gpu\", \"region:eu\", \"web_search>=5\"]";
    assert!(shown.contains(line), "{shown}");
}

#[test]
fn faults_of_an_executor_name_its_setting() {
    let long = "x".repeat(300);
    let many = vec!["'a'"; 65].join(", ");
    let capability = "(allowed: 1 to 64 lower-case letters, digits, '_', '-', '.' and ':', and then perhaps >= \
                      and a level from 1 to 1000000, such as web_search>=5)";
    let lines = [
        (
            "name = 'a b'".to_owned(),
            "name is 'a b' (allowed: 1 to 64 letters",
        ),
        (
            format!("name = '{}'", &long[..65]),
            "(allowed: 1 to 64 letters",
        ),
        ("tools = ['a[']".to_owned(), "tools is no pattern: "),
        (
            "tools = ['']".to_owned(),
            "tools has an empty item (allowed: names of tools, or patterns",
        ),
        ("capabilities = ['GPU']".to_owned(), capability),
        (
            "capabilities = ['a>=b']".to_owned(),
            "capabilities has 'a>=b' (allowed: 1 to 64",
        ),
        (
            "capabilities = ['a>=1000001']".to_owned(),
            "capabilities has 'a>=1000001' (allowed",
        ),
        (
            "capabilities = ['a', 'a>=2']".to_owned(),
            "capabilities has 'a' twice (allowed: each capability once)",
        ),
        (
            format!("capabilities = [{many}]"),
            "capabilities has 65 items (allowed: at most 64)",
        ),
        (
            "labels = { '' = 'a' }".to_owned(),
            "labels has the name '' (allowed: names of 1 to 64",
        ),
        (
            format!("labels = {{ zone = '{long}' }}"),
            "labels has 300 bytes in 'zone' (allowed: at most 256 bytes)",
        ),
    ];
    for (line, fault) in lines {
        let error = settings(&format!("[executor]\n{line}"), &[], &[]).unwrap_err();
        assert!(
            error.contains("executor.") && error.contains(fault),
            "{error}"
        );
    }
}

#[test]
fn folders_of_agents_and_skills_are_inside_of_the_workspace() {
    let loaded = settings("", &[], &[]).unwrap();
    assert!(loaded.config.agents.enabled);
    assert_eq!(loaded.config.agents.paths[0], ".cairn/agents");
    assert_eq!(loaded.config.skills.paths[0], ".agents/skills");
    let file = "[agents]\nenabled = false\npaths = ['a/b']\n[skills]\npaths = []";
    let loaded = settings(file, &[], &[]).unwrap();
    let found = OfWorkspace::read(&loaded.config.workspace.path, &Environment::default());
    let tools = parts::tools(&loaded.config, &found);
    assert!(!tools.agents_enabled && tools.skill_paths.is_empty());
    assert_eq!(tools.agent_paths, ["a/b"]);
    for (line, fault) in [
        (
            "[agents]\npaths = ['../x']",
            "agents.paths has '../x' (allowed: a path",
        ),
        (
            "[skills]\npaths = ['/etc']",
            "skills.paths has '/etc' (allowed: a path",
        ),
        (
            "[skills]\npaths = ['a', 'a']",
            "skills.paths has 'a' twice (allowed: each folder once)",
        ),
    ] {
        let error = settings(line, &[], &[]).unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn programs_get_no_port_of_cairn_or_its_store() {
    let of = |network: &str, more: &str| {
        let file = format!("tools.shell.network = {network}\n{more}");
        settings(&file, &[], &[]).map(|_| ())
    };
    for network in ["'none'", "'loopback'", "[5432]"] {
        of(network, "").unwrap();
    }
    for (network, more) in [
        ("[443, 7882]", ""),
        ("[9001]", "serve.listen = '127.0.0.1:9001'"),
        ("[9002]", "links.tools = 'http://127.0.0.1:9002'"),
        ("[6379]", "store.redis.url = 'redis://localhost'"),
        ("[9003]", "store.redis.url = 'redis://u:p@localhost:9003'"),
    ] {
        let error = of(network, more).unwrap_err();
        assert!(
            error.contains("tools.shell.network has the port"),
            "{error}"
        );
    }
}

#[test]
fn prices_are_listed_replaced_or_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("prices.toml");
    let own = "as_of = '2027-01'\n[providers.openai]\nsource = 'https://x'\n\
        [providers.openai.models]\ngpt-5-mini = { input = '1', output = '2' }\n\
        local-1 = { input = '0', output = '0' }\n";
    std::fs::write(&list, own).unwrap();
    let models = "\
[models.listed]
[models.configured]
input_usd_per_million = 7
output_usd_per_million = 8
[models.local]
base_url = 'http://127.0.0.1:8080/v1'
model = 'local-1'";
    let output = |file: &str| {
        let loaded = settings(file, &[], &[]).unwrap();
        let registry = loaded.config.registry();
        let prices = |name: &str| registry.get(name).unwrap().describe().prices;
        ["listed", "configured", "local"].map(|name| prices(name).map(|p| p.output))
    };
    let configured = Some(8_000_000_000);
    assert_eq!(output(models), [Some(2_000_000_000), configured, None]);
    let with_list = format!("model.prices = '{}'\n{models}", list.display());
    assert_eq!(
        output(&with_list),
        [Some(2_000_000_000), configured, Some(0)]
    );

    std::fs::write(&list, own.replace("'1'", "'one'")).unwrap();
    let error = settings(&with_list, &[], &[]).unwrap_err();
    assert!(error.contains("model.prices is wrong"), "{error}");
    assert!(error.contains("in line 5"), "{error}");
}

#[test]
fn a_model_sees_as_its_setting_or_a_list_says() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("prices.toml");
    let own = "as_of = '2027-01'\n[providers.openai]\nsource = 'https://x'\n\
        [providers.openai.models]\nlocal-1 = { input = '0', output = '0', vision = true }\n\
        gpt-5-mini = { input = '1', output = '2' }\n";
    std::fs::write(&list, own).unwrap();
    let models = "\
[models.listed]
[models.blind]
vision = false
[models.local]
base_url = 'http://127.0.0.1:8080/v1'
model = 'local-1'
[models.told]
base_url = 'http://127.0.0.1:8080/v1'
model = 'local-2'
vision = true";
    let sees = |file: &str| {
        let loaded = settings(file, &[], &[]).unwrap();
        let registry = loaded.config.registry();
        ["listed", "blind", "local", "told"]
            .map(|name| registry.get(name).unwrap().describe().vision)
    };
    assert_eq!(sees(models), [true, false, false, true]);
    // What this list does not say of a model, the built-in one says.
    let with_list = format!("model.prices = '{}'\n{models}", list.display());
    assert_eq!(sees(&with_list), [true, false, true, true]);
}

#[test]
fn faults_of_a_model_name_its_setting() {
    let error = |line: &str| {
        let file = format!("[models.m]\nbase_url = 'https://h'\n{line}");
        settings(&file, &[], &[]).unwrap_err()
    };
    let lines = [
        "provider = 'antropic'",
        "api_key = \"a\\u0001b\"",
        "headers = { \"a b\" = 'canary' }",
        "headers = { x-a = \"canary\\ncanary\" }",
        "idle_timeout = '0s'",
        "max_output_tokens = 0",
        "omit = ['stream_option']",
        "vision = 'yes'",
        "window_tokens = 10",
        "[model]\nmax_reply_bytes = 1000",
        "[session]\nstate_bytes = 1000",
        "[model]\nmax_retries = 101",
        "input_usd_per_million = 1",
        "cache_write_usd_per_million = 1",
        "output_usd_per_million = -1",
    ];
    let faults = lines.map(|line| {
        let error = error(line);
        assert!(!error.contains("canary"), "{error}");
        format!("--- {line}\n{error}\n")
    });
    insta::assert_snapshot!("faults_of_a_model", faults.concat());
}

#[test]
fn the_usual_variable_names_the_collector_and_never_shows_a_password() {
    const USUAL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let loaded = settings("", &[(USUAL, "http://collector:4317")], &[]).unwrap();
    let endpoint = loaded.config.telemetry.endpoint();
    assert_eq!(endpoint.as_deref(), Some("http://collector:4317"));
    assert_eq!(
        loaded.origin("telemetry.otlp").to_string(),
        format!("variable {USUAL}")
    );

    // What is meant for other programs stops nothing here, and is not shown.
    let wrong = (USUAL, "https://canary@collector");
    let loaded = settings("", &[wrong], &[]).unwrap();
    assert_eq!(loaded.config.telemetry, TelemetryConfig::default());
    let loaded = settings("", &[(USUAL, "https://collector")], &[]).unwrap();
    let endpoint = loaded.config.telemetry.endpoint();
    assert_eq!(endpoint.as_deref(), Some("https://collector:443"));
    let error = settings("", &[("CAIRN_TELEMETRY__OTLP", wrong.1)], &[]).unwrap_err();
    let want = "variable CAIRN_TELEMETRY__OTLP: telemetry.otlp has credentials in it";
    assert!(error.contains(want) && !error.contains("canary"), "{error}");
}

#[test]
fn an_unknown_model_is_reported_the_known_ones() {
    let file = "[models.local]\nbase_url = 'http://127.0.0.1:8080/v1'\nmodel = 'm'";
    let error = settings(file, &[], &[("--model", "model.default", "locl")]).unwrap_err();
    let want = "flag --model: model.default is \"locl\", which is no model here \
                (allowed: local, offline)";
    assert!(error.contains(want), "{error}");
    let loaded = settings(file, &[], &[("--model", "model.default", "local")]).unwrap();
    assert_eq!(loaded.config.default_model(), "local");
}

#[test]
fn a_named_model_is_checked_where_the_work_is_done() {
    let mut loaded = settings("", &[], &[]).unwrap();
    let mut named = |name: &str| {
        loaded.config.model.default = Some(name.to_owned());
        let checked = loaded.config.check_named_model(&loaded.config.registry());
        checked.map_err(|fault| fault.to_string())
    };
    assert_eq!(named("offline"), Ok(()));
    let want = "flag --model: model.default is \"locl\", which is no model here (allowed: offline)";
    assert!(named("locl").unwrap_err().contains(want));
}

#[test]
fn all_faults_come_at_once() {
    let file = "\
[store]
max_pages = 1
retention.after = '10ms'
retention.archive = ''
[run]
max_turns = 0
[models.tape]
provider = 'recorded'
[models.far]
base_url = 'http://models.example/v1'
api_key = 'sk-canary-7'
[[tools.commands]]
name = 'no name'
description = 'x'
argv = []
[surprise]
x = 1";
    let variables = [
        ("CAIRN_SESSION__LEASE", "forever"),
        ("CAIRN_LOG__LEVEL", "loud!"),
    ];
    let error = settings(file, &variables, &[]).unwrap_err();
    insta::assert_snapshot!("all_faults_at_once", error);
    assert!(!error.contains("canary"), "{error}");
}

#[test]
fn a_recorded_model_is_read_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("tape.jsonl");
    std::fs::write(&tape, "{\"reply\": {\"text\": \"hi\"}}\n").unwrap();
    let file = format!(
        "model.default = 'tape'\n[models.tape]\nprovider = 'recorded'\npath = '{}'",
        tape.display()
    );
    let loaded = settings(&file, &[], &[]).unwrap();
    assert!(loaded.config.registry().get("tape").is_ok());
    std::fs::write(&tape, "no JSON\n").unwrap();
    let error = settings(&file, &[], &[]).unwrap_err();
    assert!(error.contains("models.tape.path"), "{error}");
    assert!(!error.contains("model.default"), "{error}");
}

#[test]
fn a_list_that_names_no_tool_is_a_fault() {
    let command = "[[tools.commands]]\nname = 'announce'\ndescription = 'x'\nargv = ['x']\n";
    for (list, allowed) in [
        ("ask", true),
        ("deny", true),
        ("allow", true),
        ("ask", false),
    ] {
        let name = if allowed { "announce" } else { "anounce" };
        let file = format!("tools.{list} = ['read_file', '{name}']\n{command}");
        let reported = settings(&file, &[], &[]);
        match allowed {
            true => assert!(reported.is_ok(), "{reported:?}"),
            false => {
                let error = reported.unwrap_err();
                let want = "cairn.toml:1: tools.ask names 'anounce', which is no tool (allowed: \
                            announce, edit_file, list_files, read_file, search_files, shell_exec, \
                            write_file)";
                assert!(error.contains(want), "{error}");
            }
        }
    }
}

#[test]
fn capabilities_are_the_defaults_with_what_the_settings_change() {
    let shown = settings("", &[], &[]).unwrap().show();
    let default = "capabilities.file_ops = [\"read_file\", \"write_file\"]  # default";
    assert!(shown.contains(default), "{shown}");
    assert!(shown.contains("# tools.web_search is not set"), "{shown}");
    let file = "[capabilities]\ngpu = { tools = ['train'], level = 5 }\nshell_exec = []\n\
        [tools.web_search]\nurl = 'http://127.0.0.1:8888/search'\nkey = 'env:SEARCH_KEY'\n";
    let variables = [("CAIRN_CAPABILITIES__FILE_OPS", "read_file, edit_file")];
    let loaded = settings(file, &variables, &[]).unwrap();
    let shown = loaded.show();
    for line in [
        "capabilities.file_ops = [\"read_file\", \"edit_file\"]  # variable CAIRN_CAPABILITIES__FILE_OPS",
        "capabilities.gpu.level = 5  # ",
        "capabilities.gpu.tools = [\"train\"]  # ",
        "capabilities.shell_exec = []  # ",
        "capabilities.web_search = [\"web_search\"]  # default",
        "tools.web_search.key = \"env:SEARCH_KEY\"  # ",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn faults_of_capabilities_and_searches_name_their_setting() {
    for (line, problem) in [
        ("capabilities.gpu = 5", "capabilities.gpu is 5"),
        (
            "capabilities.gpu = ['a b']",
            "capabilities.gpu names the tool 'a b'",
        ),
        (
            "capabilities.gpu = { tools = ['a'], levle = 5 }",
            "capabilities.gpu.levle is not a setting",
        ),
        (
            "capabilities.gpu = { tools = ['a'], level = 0 }",
            "capabilities.gpu.level is 0 (allowed: 1 to 1000000)",
        ),
        ("capabilities.GPU = ['a']", "capabilities.GPU is no name"),
        (
            "tools.web_search.url = 'x'",
            "tools.web_search.url is no address",
        ),
        (
            "tools.web_search = { url = 'https://s.example/', key = 'canary' }",
            "tools.web_search.key is a value",
        ),
    ] {
        let error = settings(line, &[], &[]).unwrap_err();
        assert!(error.contains(problem), "{line}: {error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

#[test]
fn hooks_are_read_in_their_order() {
    let file = "\
[[hooks]]
name = 'guard'
points = ['PreToolCall', 'OnRunStart']
tools = ['shell_exec']
command = ['python3', 'guard.py']
env = ['HOME']
timeout = '2s'
on_error = 'proceed'
[[hooks]]
name = 'audit'
points = ['OnRunEnd']
agents = []
url = 'https://hooks.example.org:8443'
[serve]
hook_addresses = ['https://*.example.org:*']";
    let loaded = settings(file, &[], &[]).unwrap();
    let [guard, audit] = loaded.config.hooks.as_slice() else {
        panic!("{:?}", loaded.config.hooks);
    };
    assert_eq!(guard.name, "guard");
    assert_eq!(guard.points.len(), 2);
    assert_eq!(guard.timeout, Duration::from_secs(2));
    assert_eq!(guard.on_error, Some(cairn_hooks::OnError::Proceed));
    assert_eq!(audit.agents.as_deref(), Some(&[][..]));
    assert_eq!(audit.timeout, Duration::from_secs(5));
    assert_eq!(audit.on_error, None);
    let shown = loaded.show();
    let line = shown.lines().find(|line| line.starts_with("hooks = "));
    // What is shown can be read again.
    let again = settings(line.unwrap(), &[], &[]).unwrap();
    assert_eq!(again.config.hooks, loaded.config.hooks);
}

#[test]
fn faults_of_hooks_name_their_setting() {
    let of = |lines: &str| {
        let file = format!("[[hooks]]\nname = 'guard'\npoints = ['PreToolCall']\n{lines}");
        settings(&file, &[], &[]).unwrap_err()
    };
    for (lines, fault) in [
        ("pionts = []", "hooks[0].pionts is not a setting"),
        ("tools = ['a[']", "hooks[0].tools has \"a[\""),
        ("agents = ['']", "hooks[0].agents has \"\""),
        ("timeout = '10ms'", "hooks[0].timeout is 10ms"),
        ("timeout = '61s'", "hooks[0].timeout is 61s"),
        ("on_error = 'blok'", "did you mean block?"),
        ("command = ['']", "hooks[0].command has no program"),
        (
            "command = ['a']\nurl = 'http://h:1'",
            "hooks[0].command stands beside url",
        ),
        ("url = 'h:1'", "hooks[0].url is no address"),
        ("env = ['A']", "hooks[0].env belongs to a program"),
        (
            "command = ['a']\nenv = ['PATH']",
            "hooks[0].env has \"PATH\"",
        ),
        (
            "[[hooks]]\nname = 'guard'\npoints = ['OnRunEnd']",
            "hooks[1].name is 'guard' twice",
        ),
        (
            "[serve]\nhook_addresses = ['example.org']",
            "serve.hook_addresses has \"example.org\"",
        ),
    ] {
        let error = of(lines);
        assert!(error.contains(fault), "{lines}: {error}");
    }
    for (line, fault) in [
        (
            "points = []",
            "hooks[0].points is empty (allowed: OnRunStart",
        ),
        ("points = ['OnRunEnd', 'OnRunEnd']", "names a point twice"),
        (
            "points = ['PreTolCall']",
            "is \"PreTolCall\", did you mean PreToolCall?",
        ),
        (
            "points = ['OnRunEnd']\ntools = ['a']",
            "hooks[0].tools is set, but the hook is not asked about calls",
        ),
    ] {
        let error = settings(&format!("[[hooks]]\nname = 'a'\n{line}"), &[], &[]).unwrap_err();
        assert!(error.contains(fault), "{line}: {error}");
    }
    let error = settings("[[hooks]]\nname = 'a b'\npoints = ['OnRunEnd']", &[], &[]);
    assert!(error.unwrap_err().contains("hooks[0].name is \"a b\""));
}

#[test]
fn a_point_in_other_words_is_named() {
    for (line, fault) in [
        (
            "points = ['PreRequest', 'pretoolcall']",
            "hooks[0].points[1] is \"pretoolcall\", did you mean PreToolCall? (allowed: the name",
        ),
        (
            "points = ['Stop']",
            "hooks[0].points[0] is \"Stop\", did you mean OnTurnEnd? (allowed: the name",
        ),
        ("points = [1]", "hooks[0].points[0] is 1 (allowed: the name"),
        ("command = ['a']", "hooks[0].points is missing"),
    ] {
        let error = settings(&format!("[[hooks]]\nname = 'a'\n{line}"), &[], &[]).unwrap_err();
        assert!(error.contains(fault), "{line}: {error}");
    }
}

#[test]
fn an_unknown_part_of_a_hook_in_a_variable_takes_no_hook_away() {
    let file = "[[hooks]]\nname = 'guard'\npoints = ['PreToolCall']\ncommand = ['a']";
    let hooks = "[{name='e', points=['PreToolCall'], command=['x'], matcher='Bash'}]";
    let error = settings(file, &[("CAIRN_HOOKS", hooks)], &[]).unwrap_err();
    let fault = "variable CAIRN_HOOKS: hooks[0].matcher is not a setting";
    assert!(error.contains(fault), "{error}");
}

/// A program in Rust may have it, and a command has none.
#[test]
fn a_hook_without_a_command_and_a_url_is_named() {
    let file = "[[hooks]]\nname = 'guard'\npoints = ['PreToolCall']\ncommand = ['a']\n\
                [[hooks]]\nname = 'audit'\npoints = ['OnRunEnd']\n";
    let loaded = settings(file, &[], &[]).unwrap();
    let error = hooks::check_means(&loaded).unwrap_err();
    assert_eq!(error.code, crate::error::USAGE);
    let fault = "hooks[1] needs a command or a url (allowed: a program";
    assert!(error.message.contains(fault), "{error}");
    assert!(!error.message.contains("hooks[0]"), "{error}");

    let variable = [("CAIRN_HOOKS", "[{name='e', points=['PreToolCall']}]")];
    let loaded = settings("", &variable, &[]).unwrap();
    let error = hooks::check_means(&loaded).unwrap_err();
    let fault = "variable CAIRN_HOOKS: hooks[0] needs a command or a url";
    assert!(error.message.contains(fault), "{error}");
    let elsewhere = [variable[0], ("CAIRN_SERVER", "http://127.0.0.1:1")];
    let loaded = settings("", &elsewhere, &[]).unwrap();
    assert_eq!(hooks::check_means(&loaded), Ok(()));
}

#[test]
fn a_command_waits_as_long_as_hooks_about_the_end_of_a_run_may_take() {
    let hook = |name: &str, point: &str, rest: &str| {
        format!("[[hooks]]\nname = '{name}'\npoints = ['{point}']\n{rest}\n")
    };
    let file = [
        hook("a", "OnRunEnd", "command = ['a']\ntimeout = '20s'"),
        hook("b", "OnTurnEnd", "command = ['a']\ntimeout = '50s'"),
        hook("c", "OnRunEnd", "url = 'http://h:1'"),
    ];
    let loaded = settings(&file.concat(), &[], &[]).unwrap();
    let time = hooks::time_at_end(&loaded.config.hooks);
    assert_eq!(time, Duration::from_secs(20 + 30 + 5));
    assert_eq!(hooks::time_at_end(&[]), Duration::ZERO);
}

#[test]
fn tools_of_other_programs_in_a_hook_are_warned_of() {
    let file = "[[hooks]]\nname = 'a'\npoints = ['PreToolCall']\ncommand = ['a']\n\
                [[hooks]]\nname = 'b'\npoints = ['PreToolCall']\ncommand = ['a']\ntools = ['bash', 'count']\n";
    let warnings = |more: &str| {
        let loaded = settings(&format!("{file}{more}"), &[], &[]).unwrap();
        hooks::warnings(&loaded.config)
    };
    let bash = "hooks[1].tools: \"bash\" is a tool of other programs, which is shell_exec here";
    assert_eq!(warnings(""), [bash]);
    let own = "[[tools.commands]]\nname = 'bash'\ndescription = 'a'\nargv = ['bash']\n";
    assert_eq!(warnings(own), [""; 0]);
}
