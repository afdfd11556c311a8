mod faults;

use super::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct All {
    store: String,
    memory: Memory,
    model: Model,
    tools: Tools,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Memory {
    #[serde(with = "duration")]
    lease: Duration,
    max_sessions: u16,
    ratio: f64,
    durable: bool,
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Fast,
    Careful,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Model {
    api_key: Secret,
    second_key: Option<Secret>,
    base_url: Option<String>,
    headers: BTreeMap<String, String>,
}

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        let keys = |m: &Self| (m.api_key.expose().to_owned(), m.second_key.is_some());
        keys(self) == keys(other)
            && self.base_url == other.base_url
            && self.headers == other.headers
    }
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Tools {
    allow: Vec<String>,
    ports: Vec<u16>,
    command: Vec<Command>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Command {
    name: String,
    argv: Vec<String>,
    #[serde(default)]
    retries: u8,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            max_sessions: 100,
            ratio: 0.5,
            durable: true,
            mode: Mode::Careful,
        }
    }
}

impl Settings for Memory {
    fn check(&self, checks: &mut Checks) {
        let second = Duration::from_secs(1);
        checks.range("lease", self.lease, second..=60 * second);
        checks.range("max_sessions", self.max_sessions, 1..=1000);
        let fits = self.durable || self.mode == Mode::Fast;
        let problem = "is careful, which means nothing while durable is false";
        checks.require(fits, "mode", problem, "fast");
    }
}

impl Settings for All {
    fn check(&self, checks: &mut Checks) {
        checks.nested("memory", &self.memory);
        for (index, command) in self.tools.command.iter().enumerate() {
            let name = format!("tools.command[{index}].name");
            let holds = !command.name.trim().is_empty();
            checks.require(holds, &name, "is empty", "a text that says something");
        }
    }
}

fn faults(layers: Layers) -> Vec<String> {
    let errors = layers.load::<All>().unwrap_err();
    errors.0.iter().map(ToString::to_string).collect()
}

fn env(variables: &[(&str, &str)]) -> Environment {
    Environment::of(variables.iter().copied())
}

#[test]
fn without_layers_there_are_the_defaults() {
    let loaded = Layers::new().load::<All>().unwrap();
    assert_eq!(loaded.config, All::default());
    assert_eq!(loaded.origin("memory.lease"), &Origin::Default);
}

/// As editors on Windows write it.
#[test]
fn a_mark_of_the_byte_order_is_skipped() {
    let text = "\u{feff}[memory]\r\nlease = '10s'\r\nmax_sessions = 0\r\n";
    let faults = faults(Layers::new().text("a.toml", text));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("memory.max_sessions"), "{faults:?}");
    let fine = Layers::new().text("a.toml", "\u{feff}memory.lease = '10s'");
    let loaded = fine.load::<All>().unwrap();
    assert_eq!(loaded.config.memory.lease, Duration::from_secs(10));
}

#[test]
fn a_later_layer_counts_more_whatever_the_order_of_calls() {
    let environment = env(&[("CAIRN_MEMORY__LEASE", "20s"), ("CAIRN_MEMORY__RATIO", "2")]);
    let loaded = Layers::new()
        .flag("--lease", "memory.lease", "30s")
        .environment(&environment)
        .text(
            "a.toml",
            "[memory]\nlease = '10s'\nratio = 1\nmax_sessions = 7",
        )
        .text("b.toml", "memory.max_sessions = 8")
        .load::<All>()
        .unwrap();
    assert_eq!(loaded.config.memory.lease, Duration::from_secs(30));
    assert_eq!(loaded.config.memory.ratio, 2.0);
    assert_eq!(loaded.config.memory.max_sessions, 8);
    assert!(loaded.config.memory.durable);
    let origin = |path| loaded.origin(path).to_string();
    assert_eq!(origin("memory.lease"), "flag --lease");
    assert_eq!(origin("memory.ratio"), "variable CAIRN_MEMORY__RATIO");
    assert_eq!(origin("memory.max_sessions"), "b.toml:1");
    assert_eq!(origin("memory.durable"), "default");
}

#[test]
fn texts_become_what_the_setting_is() {
    let environment = env(&[
        ("CAIRN_STORE", "007"),
        ("CAIRN_MEMORY__MAX_SESSIONS", "7"),
        ("CAIRN_MEMORY__RATIO", "1"),
        ("CAIRN_MEMORY__DURABLE", "false"),
        ("CAIRN_MEMORY__MODE", "fast"),
        ("CAIRN_MODEL__BASE_URL", ""),
        ("CAIRN_MODEL__HEADERS", "{ a = 'x', \"B-c\" = 'y' }"),
        ("CAIRN_TOOLS__ALLOW", "read_file, list_files"),
        ("CAIRN_TOOLS__PORTS", "[1, 2]"),
        (
            "CAIRN_TOOLS__COMMAND",
            "[{ name = 'n', argv = ['a', 'b'] }]",
        ),
        ("UNRELATED__X", "1"),
    ]);
    let config = Layers::new().environment(&environment).load::<All>();
    let config = config.unwrap().config;
    assert_eq!(config.store, "007");
    assert_eq!(config.memory.max_sessions, 7);
    assert_eq!(config.memory.ratio, 1.0);
    assert!(!config.memory.durable);
    assert_eq!(config.memory.mode, Mode::Fast);
    assert_eq!(config.model.base_url, None);
    assert_eq!(config.model.headers["a"], "x");
    assert_eq!(config.model.headers["B-c"], "y");
    assert_eq!(config.tools.allow, ["read_file", "list_files"]);
    assert_eq!(config.tools.ports, [1, 2]);
    assert_eq!(config.tools.command[0].argv, ["a", "b"]);
}

#[test]
fn a_secret_is_never_shown() {
    const KEY: &str = "sk-hunter2";
    let sources = [
        format!("[model]\napi_key = ['{KEY}']"),
        format!("[model]\napi_key = {{ a = '{KEY}' }}"),
        format!("[model]\nsecond_key = [['{KEY}']]"),
        format!("[model]\napi_key = '{KEY}"),
        format!("[model]\napi_key = {KEY}"),
        format!("[model]\napi_kye = '{KEY}'"),
        format!("[model]\napi_key = '{KEY}'\napi_key = '{KEY}'"),
        format!("[model.api_key]\nx = 1\ny = '{KEY}'"),
    ];
    for source in &sources {
        let errors = Layers::new().text("c.toml", source).load::<All>();
        let errors = errors.unwrap_err();
        let text = format!("{errors} {errors:?}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    let environment = env(&[("OPENAI_API_KEY", KEY), ("CAIRN_MODEL__SECOND_KEY", KEY)]);
    assert!(!format!("{environment:?}").contains("hunter2"));
    let loaded = Layers::new()
        .alias(&environment, "OPENAI_API_KEY", "model.api_key")
        .environment(&environment)
        .load::<All>()
        .unwrap();
    assert_eq!(loaded.config.model.api_key.expose(), KEY);
    let text = format!("{:?} {}", loaded.config, loaded.show());
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("model.api_key = \"********\"  # variable OPENAI_API_KEY"));
}

#[test]
fn an_alias_counts_less_than_the_full_name() {
    let environment = env(&[("OPENAI_API_KEY", "a"), ("CAIRN_MODEL__API_KEY", "b")]);
    let loaded = Layers::new()
        .environment(&environment)
        .alias(&environment, "OPENAI_API_KEY", "model.api_key")
        .alias(&environment, "NOT_SET", "model.base_url")
        .text("c.toml", "model.api_key = 'c'")
        .load::<All>()
        .unwrap();
    assert_eq!(loaded.config.model.api_key.expose(), "b");
    assert_eq!(loaded.config.model.base_url, None);
}

#[test]
fn variables_of_others_are_ignored_and_slips_are_faults() {
    let kubernetes = env(&[
        ("CAIRN_SERVICE_HOST", "10.0.0.1"),
        ("CAIRN_PORT_50051_TCP_ADDR", "10.0.0.1"),
        ("CAIRN_CALL_KEY", "k"),
    ]);
    let loaded = Layers::new()
        .environment(&kubernetes)
        .load::<All>()
        .unwrap();
    assert_eq!(loaded.ignored_variables.len(), 3);
    assert_eq!(loaded.config, All::default());

    let found = faults(Layers::new().environment(&env(&[("CAIRN_STROE", "x")])));
    assert!(found[0].contains("did you mean store?"), "{found:?}");
    let broken = Environment::with_broken("CAIRN_STORE");
    let found = faults(Layers::new().environment(&broken));
    assert_eq!(found, ["variable CAIRN_STORE: is not UTF-8"]);
    let other = Environment::with_broken("PATH");
    assert!(Layers::new().environment(&other).load::<All>().is_ok());
}

#[test]
fn what_is_shown_can_be_read_again() {
    let text = "store = \"a\\\"b\\\\c\\nd\\u001B\\u2028ü\"\n\
                [memory]\nlease = '90s'\n\
                [model.headers]\nx-a = '1'\n'b c' = '2'\n\
                [[tools.command]]\nname = 'n'\nargv = ['a', 'b']\n";
    let loaded = Layers::new().text("c.toml", text).load::<All>();
    // Ninety seconds are too long; the rest is fine.
    assert_eq!(loaded.unwrap_err().0.len(), 1);

    let text = text.replace("90s", "45s");
    let loaded = Layers::new().text("c.toml", &text).load::<All>().unwrap();
    let shown = loaded.show();
    assert!(
        shown.contains("memory.lease = \"45s\"  # c.toml:3\n"),
        "{shown}"
    );
    assert!(
        shown.contains("memory.max_sessions = 100  # default\n"),
        "{shown}"
    );
    assert!(
        shown.contains("# model.base_url is not set  # default\n"),
        "{shown}"
    );
    assert!(
        shown.contains("tools.command = [{ name = \"n\", "),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 14);
    let again = Layers::new().text("shown", &shown).load::<All>().unwrap();
    assert_eq!(again.config, loaded.config);
}

#[test]
fn a_table_in_a_variable_is_merged_with_the_files() {
    let environment = env(&[("CAIRN_MEMORY", "{ ratio = 2 }")]);
    let loaded = Layers::new()
        .text("c.toml", "[memory]\nmax_sessions = 7")
        .environment(&environment)
        .flag("--x", "memory.durable", "true")
        .load::<All>()
        .unwrap();
    assert_eq!(loaded.config.memory.max_sessions, 7);
    assert_eq!(loaded.config.memory.ratio, 2.0);
    let origin = loaded.origin("memory.ratio").to_string();
    assert_eq!(origin, "variable CAIRN_MEMORY");
}

#[test]
fn files_are_read_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("good.toml"), "store = 's'").unwrap();
    std::fs::write(path("bad.toml"), "\n\nstore = 1").unwrap();
    std::fs::write(path("large.toml"), "#".repeat(1024 * 1024 + 1)).unwrap();
    std::fs::write(path("latin.toml"), b"store = '\xfc'").unwrap();

    let load = |layers: Layers| layers.load::<All>();
    let good = load(Layers::new().file(&path("good.toml"))).unwrap();
    assert_eq!(good.config.store, "s");
    assert!(load(Layers::new().optional_file(&path("absent.toml"))).is_ok());
    for (name, want) in [
        ("absent.toml", "cannot be read: "),
        ("bad.toml", "store is 1 (allowed: a string)"),
        ("large.toml", "has 1048577 bytes"),
        ("latin.toml", "cannot be read: "),
    ] {
        let found = faults(Layers::new().file(&path(name)));
        let line = if name == "bad.toml" { ":3" } else { "" };
        let want = format!("{}{line}: {want}", path(name).display());
        assert!(found[0].starts_with(&want), "{found:?}");
    }
    assert!(load(Layers::new().optional_file(Path::new("/"))).is_err());
}
