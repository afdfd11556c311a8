//! Secrets, and where they may be seen: nowhere at all, or in the journal if a tool said them.
//!
//! The program itself works with a value that is nowhere else for each kind of secret, logs all it
//! can, and everything that it printed or wrote is searched.
//!
//! No key, header, password or variable is in anything that was printed or written.

mod files;
mod places;
mod world;

use cairn_testkit::Site;
use cairn_testkit::model_server::{Answer, Asked};
use places::Places;
use std::sync::{Arc, Mutex};
use world::{Answers, CAIRN, World};

/// Secrets that no tool says, by kind; each is one of a kind.
const HIDDEN: [(&str, &str); 10] = [
    ("OPENAI_API_KEY", "sk-canary-openai-1a"),
    ("ANTHROPIC_API_KEY", "sk-ant-canary-2b"),
    ("api_key of a model in the file", "sk-canary-filed-3c"),
    ("header of a model in the file", "canary-header-4d"),
    ("header of a model in a variable", "canary-variable-5e"),
    ("variable that no tool is given", "canary-ungiven-6f"),
    ("variable of a tool that does not say it", "canary-quiet-7a"),
    ("api_key of a model in a variable", "sk-canary-varied-9d"),
    ("header for the collector of traces", "canary-collector-0e"),
    ("token of the listeners", "canary-token-1f-0123456789"),
];
/// What a tool says of its own accord, on standard output and on standard error.
const SAID: [(&str, &str); 2] = [
    ("variable of a tool that says it", "canary-given-9c"),
    ("standard error of a tool", "canary-stderr-0d"),
];

/// The value of a kind.
fn canary(kind: &str) -> &'static str {
    let found = HIDDEN
        .into_iter()
        .chain(SAID)
        .find(|(name, _)| *name == kind);
    found.expect("a kind of secret").1
}

fn key() -> &'static str {
    canary("OPENAI_API_KEY")
}

/// An error that says the key and the header back.
fn echo(status: u16) -> Answer {
    let (key, header) = (key(), canary("header of a model in the file"));
    let text = format!("wrong: Authorization: Bearer {key}; x-canary: {header}");
    let error = serde_json::json!({"error": {"message": text, "type": "x", "code": key}});
    Answer::Whole(status, error.to_string())
}

#[test]
fn secrets_are_nowhere_and_what_tools_say_is_in_the_journal() {
    let server_error = echo(500);
    let cut = Answer::Cut(format!("{{\"error\": \"{}", key()));
    let world = World::new(vec![
        server_error,
        world::plan(),
        cut,
        world::calls(),
        world::end(),
    ]);
    let mut places = Places::default();
    let run = [
        "run",
        "--json",
        "--deltas",
        "--tree-dir",
        "Look for secrets.",
    ];
    let done = world.run(&run, &mut places);
    assert_eq!(done.code, Some(0), "{done:?}");
    world.look_everywhere(&world::ALL, &mut places);
    world.check_sent();
    world.add_spans(&mut places);
    check_hidden(&places);
    check_said(&places);
}

/// Nobody but the model's server is told what is hidden.
fn check_hidden(places: &Places) {
    for (kind, value) in HIDDEN {
        let found = places.with(value);
        assert!(found.is_empty(), "{kind} is in {found:?}");
    }
}

/// What a tool says is its output: it is in the journal and in the views of it, and in no log.
fn check_said(places: &Places) {
    for (kind, value) in SAID {
        let found = places.with(value);
        let must = ["export: output", "log --full: output", "file cairn.db"];
        for place in must {
            let is_there = found.iter().any(|name| name.starts_with(place));
            assert!(is_there, "{kind} is not in {place}, but in {found:?}");
        }
        let may_not = |name: &&str| {
            let silent = ["check-config", "spans", "metrics"];
            name.ends_with(": logs") || silent.iter().any(|silent| name.starts_with(silent))
        };
        let wrong: Vec<_> = found.iter().copied().filter(may_not).collect();
        assert!(wrong.is_empty(), "{kind} is in {wrong:?}");
    }
}

#[test]
fn errors_of_a_model_tell_no_secret() {
    let mistyped = serde_json::json!({"choices": key()}).to_string();
    let named =
        serde_json::json!({"choices": [{"message": {"content": "no plan"}}], "model": key()});
    for (answer, said) in [
        (echo(401), "[secret]"),
        (echo(400), "[secret]"),
        (Answer::Whole(200, mistyped), "[secret]"),
        (Answer::Whole(200, format!("{{\"{}", key())), ""),
        (Answer::Whole(404, format!("<p>{}</p>", key())), "[secret]"),
        (Answer::Whole(200, named.to_string()), ""),
    ] {
        let world = World::new(vec![answer.clone(); 4]);
        let mut places = Places::default();
        let done = world.run(&["run", "--tree-dir", "Look for secrets."], &mut places);
        assert_eq!(done.code, Some(1), "{answer:?}: {done:?}");
        assert!(done.out.contains(said), "{answer:?}: {done:?}");
        world.look_everywhere(&world::ERRORS, &mut places);
        check_hidden(&places);
    }
}

#[test]
fn a_server_and_its_clients_tell_no_secret() {
    let world = World::new(vec![echo(403), world::plan(), world::calls(), world::end()]);
    let mut places = Places::default();
    let (server, address, metrics) = world.serve();
    for expected in [1, 0] {
        let done = world.run(&["run", "--json", "Look for secrets."], &mut places);
        assert_eq!(done.code, Some(expected), "{done:?}");
    }
    world.look_everywhere(&world::ALL, &mut places);
    world.check_sent();
    let over_tcp = world.run(&["sessions", "--server", &address], &mut places);
    assert_eq!(over_tcp.code, Some(0), "{over_tcp:?}");
    let refused = world.without_token(&["sessions", "--server", &address], &mut places);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    places.add_text("metrics", world::get(&metrics));
    assert!(places.has("metrics"), "nothing was counted");
    world.stop(server);
    world.add_spans(&mut places);
    world.add_files(&mut places);
    assert!(places.has("file serve.logs"), "nothing was logged");
    check_hidden(&places);
    let logs = places.with(canary("variable of a tool that says it"));
    assert!(!logs.contains(&"file serve.logs"), "{logs:?}");
    check_said(&places);
}

/// Arguments, variables, a line of the file. `<URL>` stands for an address with a password.
type Wrong<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

#[rustfmt::skip]
const WRONG: [Wrong<'_>; 15] = [
    (&["check-config"], &[("OPENAI_BASE_URL", "<URL>")], ""),
    (&["run", "x"], &[("ANTHROPIC_BASE_URL", "<URL>")], ""),
    (&["check-config"], &[], "models.m.base_url = \"<URL>\""),
    (&["check-config"], &[], "models.m.base_url = [\"<URL>\"]"),
    (&["check-config"], &[("CAIRN_SERVER", "<URL>")], ""),
    (&["sessions", "--server", "<URL>"], &[], ""),
    (&["check-config"], &[], "client.server = \"<URL>\""),
    (&["serve", "tools", "--link", "memory=<URL>"], &[], ""),
    (&["check-config"], &[], "links.memory = \"<URL>\""),
    (&["check-config"], &[("CAIRN_TOKEN", "canary")], ""),
    (&["check-config"], &[("CAIRN_TOKEN", "canary with spaces")], ""),
    (&["check-config"], &[], "models.m.api_keys = \"sk-canary\""),
    (&["check-config"], &[], "models.m.api_key = [\"sk-canary\"]"),
    (&["check-config"], &[], "models.m.headers = \"x: canary\""),
    (&["check-config"], &[], "models.m.headers.x = \"canary\\u0001\""),
];

/// What is wrong with settings is told without them: an address with a password, a slip of the
/// pen, a value of another type.
#[test]
fn wrong_settings_are_refused_without_a_word_of_them() {
    let mut wrong = Vec::new();
    for (arguments, variables, line) in WRONG {
        let site = Site::new(CAIRN);
        let url = "http://canary-user:canary-password@localhost:1";
        let filled = |text: &str| text.replace("<URL>", url);
        site.write("cairn.toml", &filled(line));
        let given: Vec<String> = arguments.iter().map(|text| filled(text)).collect();
        let mut command = site.command(&["--log", world::EVERYTHING]);
        command.args(&given);
        command.envs(variables.iter().map(|(name, value)| (name, filled(value))));
        let done = command.output().expect("the program can be started");
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        let what = format!("{given:?} {variables:?} {line}: {said}");
        assert_eq!(done.status.code(), Some(2), "{what}");
        if said.contains("canary") {
            wrong.push(what);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A file of settings that cannot be read at all is shown to nobody.
#[test]
fn a_line_that_is_no_toml_is_named_and_not_shown() {
    let site = Site::new(CAIRN);
    for line in [
        "models.m.api_key = sk-canary",
        "models.m.api_key = \"sk-canary",
        "models.m.api_key = \"sk-canary\" sk-canary",
        "models.m.api_key = \"sk-canary\"\nmodels.m.api_key = \"sk-canary\"",
    ] {
        site.write("cairn.toml", line);
        let done = site.run(&["check-config"]);
        assert_eq!(done.code, Some(2), "{line}: {done:?}");
        assert!(done.err.contains("cairn.toml:"), "{line}: {done:?}");
        assert!(!done.err.contains("canary"), "{line}: {done:?}");
    }
}

/// Hands out answers in order, and keeps what was asked.
fn in_order(answers: Vec<Answer>, asked: Arc<Mutex<Vec<Asked>>>) -> Answers {
    let answers = Mutex::new(answers.into_iter());
    Box::new(move |request| {
        asked.lock().expect("a list").push(request.clone());
        let next = answers.lock().expect("answers").next();
        next.unwrap_or_else(|| Answer::Whole(400, "nothing more to say".to_owned()))
    })
}
