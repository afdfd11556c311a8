//! Files that file tools do not show: what is in them reaches no model and no output, whatever the
//! tools are asked for.
//!
//! Hidden and ignored files, links, `cairn.toml` and the store reach no event, log, trace, report
//! or archive. The rules themselves have tests in `cairn-tools` (`view`, `view_rules`).

use super::in_order;
use super::places::Places;
use super::world::{ALL, CAIRN, EVERYTHING, end, plan};
use cairn_memory::archive::{Item, Reader};
use cairn_testkit::model_server::{Answer, Asked, reply};
use cairn_testkit::{Collector, ModelServer, Site, TraceSpan, eventually};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Files with a value that is nowhere else.
const FILES: [(&str, &str); 7] = [
    ("cairn.toml", "sk-canary-settings-1a"),
    (".env", "canary-env-2b"),
    (".git/config", "canary-git-3c"),
    (".git/info/exclude", "canary-exclude-4d"),
    ("notes/a.secret", "canary-ignored-5e"),
    ("data/beside.txt", "canary-store-6f"),
    ("data/archive/other.jsonl", "canary-archive-7a"),
];
/// What is behind a link that leads out of the workspace.
const LINKED: &str = "canary-linked-8b";
/// Is in a file that is shown: what is searched for can be found.
const SHOWN: &str = "canary-shown-9c";

/// Paths to these files, their folders and links to them.
const PATHS: [&str; 32] = [
    "cairn.toml",
    "./cairn.toml",
    "docs/../cairn.toml",
    "CAIRN.TOML",
    "\"cairn\\x2etoml\"",
    "settings-link",
    ".env",
    "./.env",
    ".//.env",
    "docs/../.env",
    "\"\\x2eenv\"",
    "env-link",
    "env-link-link",
    ".git",
    ".git/",
    ".git/config",
    "docs/../.git/config",
    "git-link/config",
    "notes/a.secret",
    "notes/../notes/a.secret",
    "data",
    "data/",
    "data/cairn.db",
    "data/cairn.db-wal",
    "data/beside.txt",
    "data/archive/other.jsonl",
    "data-link/beside.txt",
    "outside-file",
    "outside-folder/x",
    "cairn-out/../.env",
    "7878.token",
    "docs/../7878.token",
];

/// The token of a listener, where `XDG_RUNTIME_DIR` is not set and the store lies in the workspace's
/// own folder.
const TOKEN_FILE: (&str, &str) = ("7878.token", "canary-token-0d");

struct World {
    site: Site,
    store: &'static str,
    _outside: TempDir,
    server: ModelServer,
    asked: Arc<Mutex<Vec<Asked>>>,
    collector: Collector,
}

/// Most calls that one reply may ask for.
const MOST_CALLS: usize = 64;

/// Replies with calls of every reading tool for every path, and for all that there is.
fn calls() -> Vec<Answer> {
    let of_path = |path: &&str| {
        [
            ("read_file", json!({"path": path})),
            ("list_files", json!({"path": path})),
            ("search_files", json!({"path": path, "pattern": "canary"})),
        ]
    };
    let mut calls: Vec<(&str, Value)> = PATHS.iter().flat_map(of_path).collect();
    calls.extend([
        ("list_files", json!({})),
        ("search_files", json!({"pattern": "canary"})),
        (
            "search_files",
            json!({"pattern": ".*nary.*", "regex": true, "path": "docs/.."}),
        ),
    ]);
    let replies = calls.chunks(MOST_CALLS).enumerate();
    let replies =
        replies.map(|(number, calls)| reply(&format!("calls-{number}"), "I look.", calls));
    replies.collect()
}

impl World {
    fn new(settings: &str) -> Self {
        let site = Site::new(CAIRN);
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("x"), LINKED).expect("a file");
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let mut answers = vec![plan()];
        answers.extend(calls());
        answers.push(end());
        let server = ModelServer::seeing(in_order(answers, Arc::clone(&asked)));
        let (_, key) = FILES[0];
        site.append(
            "cairn.toml",
            &format!("[models.spare]\napi_key = \"{key}\"\n"),
        );
        site.append("cairn.toml", settings);
        site.write(".gitignore", "*.secret\n");
        for (path, value) in &FILES[1..] {
            site.write(path, &format!("# {value}\n"));
        }
        site.write("docs/shown.md", SHOWN);
        site.write("cairn-out/earlier.md", "written before");
        let link = |target: &str, name: &str| {
            symlink(target, site.path().join(name)).expect("a link");
        };
        link("cairn.toml", "settings-link");
        link(".env", "env-link");
        link("env-link", "env-link-link");
        link(".git", "git-link");
        link("data", "data-link");
        link(&outside.path().join("x").to_string_lossy(), "outside-file");
        link(&outside.path().to_string_lossy(), "outside-folder");
        Self {
            site,
            store: "data/cairn.db",
            _outside: outside,
            server,
            asked,
            collector: Collector::start(),
        }
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let owned = |(name, value): (&'static str, &str)| (name, value.to_owned());
        let fixed = [
            ("CAIRN_STORE", self.store),
            ("CAIRN_TELEMETRY__CONTENT", "true"),
            ("OPENAI_API_KEY", "sk-none"),
        ];
        let mut variables: Vec<_> = fixed.map(owned).to_vec();
        variables.push(("OPENAI_BASE_URL", self.server.url().to_owned()));
        variables.push(("OTEL_EXPORTER_OTLP_ENDPOINT", self.collector.endpoint()));
        variables
    }

    fn run(&self, arguments: &[&str], places: &mut Places) {
        let variables = self.variables();
        let variables: Vec<_> = variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let logged = [arguments, &["--log", EVERYTHING]].concat();
        let done = self.site.run_with(&logged, &variables);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        places.add(&arguments.join(" "), &done);
    }

    /// Everything that a run of the calls leaves anywhere.
    fn everything(&self) -> Places {
        let mut places = Places::default();
        let run = [
            "run",
            "--session",
            "s",
            "--json",
            "--deltas",
            "--tree-dir",
            "Look.",
        ];
        self.run(&run, &mut places);
        for view in ALL {
            self.run(&view.split(' ').collect::<Vec<_>>(), &mut places);
        }
        places.add_text("archive", self.archive());
        let asked = self.asked.lock().expect("a list");
        let bodies = asked.iter().map(|request| request.body.to_string());
        places.add_text("requests to the model", bodies.collect());
        let is_work = |span: &TraceSpan| span.name.starts_with("execute_tool");
        self.collector.wait_for(|spans| spans.iter().any(is_work));
        places.add_text("spans", format!("{:?}", self.collector.spans()));
        let inputs = FILES.map(|(path, _)| path);
        places.add_files_but(
            self.site.path(),
            &[&inputs[..], &["docs/shown.md", TOKEN_FILE.0]].concat(),
        );
        places
    }

    /// Lets the session end by its age, and reads what is kept of it.
    fn archive(&self) -> String {
        let logs = File::create(self.site.path().join("serve.logs")).expect("a file");
        let mut command = self.site.command(&["serve", "--listen", "127.0.0.1:0"]);
        command
            .stdout(Stdio::null())
            .stderr(logs)
            .args(["--log", EVERYTHING])
            .args(["--metrics", "off"])
            .envs(self.variables())
            .env("CAIRN_STORE__RETENTION__AFTER", "1s")
            .env("CAIRN_STORE__RETENTION__ARCHIVE", "data/archive");
        let mut server = command.spawn().expect("the program can be started");
        let path = self.site.path().join("data/archive/default/s.jsonl");
        let file = eventually("an archive", || File::open(&path).ok());
        server.kill().expect("it can be killed");
        server.wait().expect("its end");
        let mut reader = Reader::new(BufReader::new(file)).expect("an archive");
        let mut text = String::new();
        while let Some(item) = reader.next_item().expect("an item") {
            let bytes = match item {
                Item::Part(data) => data.to_vec(),
                Item::Event(event) => {
                    [&event.event[..], event.blob.as_deref().unwrap_or_default()].concat()
                }
            };
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        text
    }

    /// What is not to be shown is really there, and is in no place.
    fn check(&self, places: &Places, except: &[&str]) {
        for (path, value) in FILES {
            let is_there = self
                .site
                .read(path)
                .is_some_and(|text| text.contains(value));
            assert!(is_there, "{path}");
        }
        let linked = ("a file behind a link", LINKED);
        for (path, value) in FILES.into_iter().chain([linked]) {
            let found = places.with(value);
            match except.contains(&path) {
                true => assert!(!found.is_empty(), "{path} is nowhere"),
                false => assert!(found.is_empty(), "{path} is in {found:?}"),
            }
        }
    }
}

/// Where an output of a tool is to be found.
const EVERYWHERE: [&str; 5] = [
    "archive",
    "export: output",
    "file data/cairn.db",
    "log --full: output",
    "requests to the model",
];

#[test]
fn what_file_tools_do_not_show_is_nowhere() {
    let world = World::new("");
    let places = world.everything();
    for place in EVERYWHERE.iter().chain(&["spans"]) {
        assert!(places.has(place), "there is no {place}");
    }
    let found = places.with(SHOWN);
    let is_found = |place: &&str| found.iter().any(|name| name.starts_with(place));
    let missing: Vec<_> = EVERYWHERE.iter().filter(|place| !is_found(place)).collect();
    assert!(missing.is_empty(), "not searched: {missing:?}");
    world.check(&places, &[]);
    for words in [
        "is hidden",
        "is ignored by git",
        "may hold keys",
        "belongs to Cairn itself",
        "is a link",
        "leaves the output folder",
    ] {
        let refusals = places.with(words);
        assert!(refusals.contains(&"requests to the model"), "{words}");
    }
}

/// Without `XDG_RUNTIME_DIR` the token of a listener is beside the store.
#[test]
fn the_tokens_beside_a_store_in_the_workspace_are_nowhere() {
    let mut world = World::new("[workspace]\nshow = [\"*.token\"]\n");
    world.store = "cairn.db";
    let (path, value) = TOKEN_FILE;
    world.site.write(path, value);
    let places = world.everything();
    let found = places.with(value);
    assert!(found.is_empty(), "{path} is in {found:?}");
    world.check(&places, &["data/beside.txt", "data/archive/other.jsonl"]);
}

/// What the operator opens is shown: the test above would find it.
#[test]
fn what_the_operator_opens_is_found() {
    let show = "[workspace]\nshow = [\".env\", \"/notes/\", \"data/\"]\n";
    let world = World::new(show);
    let places = world.everything();
    world.check(&places, &[".env", "notes/a.secret"]);
    let found = places.with("canary-env-2b");
    for place in EVERYWHERE {
        let is_found = found.iter().any(|name| name.starts_with(place));
        assert!(is_found, "{place} is not among {found:?}");
    }
}

/// What is called cairn-out may be a link that came with the workspace, or that a program made.
#[test]
fn an_output_folder_that_is_a_link_opens_nothing() {
    let refusal = "cairn-out' is a symbolic link";
    let site = Site::new(CAIRN);
    let (path, value) = FILES[2];
    site.write(path, value);
    symlink(".git", site.path().join("cairn-out")).expect("a link");
    let mut places = Places::default();
    let done = site.run(&["run", "--session", "s", "Look."]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains(refusal), "{done:?}");
    places.add("run", &done);
    fs::remove_file(site.path().join("cairn-out")).expect("a link");
    site.append("cairn.toml", LINKER);
    let steps = [
        json!({"id": "a", "tool": "linker", "arguments": {}}),
        json!({"tool": "write_file", "depends_on": ["a"],
            "arguments": {"path": "cairn-out/hooks/post-checkout", "content": "x"}}),
        json!({"tool": "read_file", "depends_on": ["a"], "arguments": {"path": "cairn-out/config"}}),
        json!({"tool": "list_files", "depends_on": ["a"], "arguments": {"path": "cairn-out"}}),
    ];
    let plan = json!({"order": "graph", "steps": steps}).to_string();
    site.write("plan.json", &plan);
    let run = [
        "run",
        "--session",
        "s",
        "--plan",
        "plan.json",
        "--on-failure",
        "go-on",
    ];
    let done = site.run(&run);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains(refusal), "{done:?}");
    places.add("run", &done);
    places.add_files_but(site.path(), &[path]);
    places.add_files(site.state());
    let found = places.with(value);
    assert!(found.is_empty(), "{path} is in {found:?}");
    let there = fs::read_dir(site.path().join(".git")).expect("a folder");
    assert_eq!(there.count(), 1, "nothing was written");
}

/// Makes a link where the output folder would be.
const LINKER: &str = r#"
[[tools.commands]]
name = "linker"
description = "Makes a link."
argv = ["ln", "-s", ".git", "cairn-out"]
confine = "none"
effect = "idempotent"
parameters = { type = "object" }
"#;
