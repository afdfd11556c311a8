//! Every setting with every fault that its type can have, in files and in variables.
//!
//! The settings are found by walking what the program itself prints, so a new one is covered as
//! soon as it is there.

mod servers;

use crate::support::{CAIRN, shown};
use cairn::cli::Global;
use cairn::settings::{ProviderSettings, Settings, load};
use cairn_boot::Environment;
use cairn_boot::config::duration;
use cairn_rpc::text::is_hidden;
use cairn_testkit::Site;
use serde_json::{Value, json};

/// Part of every secret; never to be seen.
const CANARY: &str = "sk-canary-4711";
/// Texts that may say anything; all others must be among what is allowed.
const FREE: [&str; 9] = [
    "workspace.path",
    "workspace.output",
    "prompts.folder",
    "models.m.api_key",
    "models.m.model",
    "models.m.path",
    "tools.commands[0].description",
    "tools.commands[0].argv",
    "tools.commands[0].env",
];
/// Texts that may be empty: no key, no token, a file that only another provider reads, no servers.
const MAY_BE_EMPTY: [&str; 6] = [
    "executor.name",
    "models.m.api_key",
    "serve.token",
    "models.m.path",
    "store.redis.url",
    "store.redis.master_url",
];
/// A schema may be any object.
const OPEN: &str = "tools.commands[0].parameters";
/// Their items are tables, of which a list is read as well: several parts of one are wrong at once.
const TABLES: [&str; 2] = ["hooks", "tools.rules"];

/// Every setting with a value that it may have, as `(path, value)`.
fn settings() -> Vec<(String, Value)> {
    let mut all = serde_json::to_value(Settings::default()).expect("settings");
    all["models"]["m"] = serde_json::to_value(ProviderSettings::default()).expect("a model");
    all["models"]["m"]["api_key"] = json!(CANARY);
    let mut found = Vec::new();
    walk("", &all, &mut found);
    let command = json!({
        "name": "count", "description": "counts", "argv": ["wc"], "effect": "pure",
        "parameters": {"type": "object"}, "time_limit_ms": 1000, "output_bytes": 1000, "env": ["A"],
        "confine": "none",
    });
    found.retain(|(path, _)| path != "tools.commands");
    for (name, value) in command.as_object().expect("an object") {
        found.push((format!("tools.commands[0].{name}"), value.clone()));
    }
    found
}

fn walk(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                walk(&path, value, found);
            }
        }
        value => found.push((path.to_owned(), value.clone())),
    }
}

/// Switches that have no value unless one is set.
const UNSET_SWITCHES: [&str; 2] = [".vision", ".parallel_tool_calls"];

/// A value that is wrong, as TOML; whether it must be refused.
struct Fault(String, bool);

fn faults(path: &str, value: &Value) -> Vec<Fault> {
    let must = |text: &str| Fault(text.to_owned(), true);
    let may = |text: &str| Fault(text.to_owned(), false);
    let mut found = vec![must("{ x = 1, y = \"sk-canary-4711\" }"), must("[[1]]")];
    match value {
        _ if path == OPEN => return vec![must("17"), must("\"x\""), must("{ type = 17 }")],
        Value::Number(number) => {
            for text in [
                "-1",
                "99999999999999999999",
                "\"many\"",
                "true",
                "[]",
                "\"\"",
                "1e300",
            ] {
                found.push(must(text));
            }
            found.push(Fault("1.5".to_owned(), !number.is_f64()));
            found.push(Fault("nan".to_owned(), true));
            found.push(may("0"));
            found.push(may("4294967295"));
        }
        Value::Bool(_) => found.extend(["1", "\"yes\"", "[]", "\"\""].map(must)),
        Value::Array(_) => found.extend(["17", "true", "[1, 2]"].map(must)),
        Value::String(text) => {
            found.extend(["17", "true", "[]", "1.5"].map(must));
            found.push(Fault("\"\"".to_owned(), !MAY_BE_EMPTY.contains(&path)));
            let is_free = FREE.contains(&path);
            found.push(Fault("\"no such value!\"".to_owned(), !is_free));
            found.push(Fault(r#""\u001b[31m\u202e""#.to_owned(), !is_free));
            found.push(Fault(r#""a\nb""#.to_owned(), !is_free));
            found.push(Fault("\"\\u0000\"".to_owned(), !is_free));
            if duration::parse(text).is_some() {
                found.extend(
                    [
                        "\"-1s\"",
                        "\"10\"",
                        "\"1000d\"",
                        "\"99999999999999999999d\"",
                        "\"1.5s\"",
                    ]
                    .map(must),
                );
            }
        }
        // Not set unless somebody does.
        _ if path.ends_with("_usd_per_million") => {
            found.extend(["true", "-1", "nan", "1e300", "\"much\""].map(must));
        }
        _ if UNSET_SWITCHES.iter().any(|switch| path.ends_with(switch)) => {
            found.extend(["1", "\"yes\"", "[]"].map(must));
        }
        _ => found.extend(["true", "1.5"].map(must)),
    }
    found
}

/// A file in which `wrong` has that value and what else is needed is right; the line of it.
fn file(wrong: &[(&str, &str)]) -> (String, Vec<usize>) {
    let mut lines = vec![("models.m.api_key".to_owned(), format!("\"{CANARY}\""))];
    let is_command = |path: &str| path.starts_with("tools.commands[0].");
    for (path, value) in wrong.iter().filter(|(path, _)| !is_command(path)) {
        lines.retain(|(known, _)| known != path);
        lines.push(((*path).to_owned(), (*value).to_owned()));
    }
    let mut text: Vec<String> = lines
        .iter()
        .map(|(path, value)| format!("{path} = {value}"))
        .collect();
    let mut command = vec![
        ("name".to_owned(), "\"count\"".to_owned()),
        ("description".to_owned(), "\"counts\"".to_owned()),
        ("argv".to_owned(), "[\"wc\"]".to_owned()),
    ];
    for (path, value) in wrong.iter().filter(|(path, _)| is_command(path)) {
        let name = &path["tools.commands[0].".len()..];
        command.retain(|(known, _)| known != name);
        command.push((name.to_owned(), (*value).to_owned()));
    }
    text.push("[[tools.commands]]".to_owned());
    text.extend(
        command
            .iter()
            .map(|(name, value)| format!("{name} = {value}")),
    );
    let line = |path: &str| {
        let name = path.strip_prefix("tools.commands[0].").unwrap_or(path);
        let found = text
            .iter()
            .position(|line| line.starts_with(&format!("{name} = ")));
        found.map_or(0, |index| index + 1)
    };
    let places = wrong.iter().map(|(path, _)| line(path)).collect();
    (text.join("\n"), places)
}

/// What the program would say: the faults, or all settings.
fn reported(toml: &str, variables: &[(&str, &str)]) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cairn.toml");
    std::fs::write(&path, toml).expect("a file");
    let global = Global {
        config: Some(path.clone()),
        ..Global::default()
    };
    let environment = Environment::of(variables.iter().copied());
    let reported = load(&global, &environment, &[])
        .map(|loaded| loaded.show())
        .map_err(|error| {
            assert_eq!(error.code, cairn::error::USAGE);
            error.to_string()
        });
    let short = |text: String| text.replace(&path.display().to_string(), "cairn.toml");
    reported.map(short).map_err(short)
}

/// What is wrong with what is said of one fault.
fn wrong(
    path: &str,
    place: &str,
    must_fail: bool,
    reported: &Result<String, String>,
) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let (Ok(text) | Err(text)) = reported;
    let mut check = |holds: bool, fault| {
        if !holds {
            faults.push(fault);
        }
    };
    check(!text.contains("canary"), "shows a secret");
    check(
        !text.contains(|c| is_hidden(c) && c != '\n'),
        "shows hidden characters",
    );
    match reported {
        Ok(_) => check(!must_fail, "is accepted"),
        Err(text) => {
            check(text.contains(path), "does not name the setting");
            check(text.contains(place), "does not name the place");
            let allowed = text.split_once("(allowed: ");
            check(
                allowed.is_some_and(|(_, allowed)| !allowed.starts_with(')')),
                "does not say what is allowed",
            );
            check(
                text.starts_with("cairn: the configuration has "),
                "begins otherwise",
            );
        }
    }
    faults
}

#[test]
fn every_setting_says_what_is_wrong_with_it_in_a_file() {
    let (mut cases, mut bad) = (0, Vec::new());
    for (path, value) in settings() {
        let (right, _) = file(&[]);
        assert!(reported(&right, &[]).is_ok(), "{right}");
        for Fault(text, must_fail) in faults(&path, &value) {
            let (toml, lines) = file(&[(&path, &text)]);
            let place = format!("cairn.toml:{}", lines[0]);
            let reported = reported(&toml, &[]);
            cases += 1;
            for fault in wrong(&path, &place, must_fail, &reported) {
                bad.push(format!("{path} = {text} {fault}: {reported:?}"));
            }
        }
        // A slip of the pen.
        let typo = format!("{path}x");
        let (toml, lines) = file(&[(&typo, "1")]);
        let place = format!("cairn.toml:{}", lines[0]);
        let reported = reported(&toml, &[]);
        cases += 1;
        let name = path.rsplit(['.']).next().unwrap_or_default();
        let names_the_right_one = reported.as_ref().is_err_and(|text| text.contains(name));
        let mut faults = wrong(&typo, &place, true, &reported);
        if !names_the_right_one {
            faults.push("does not name the right setting");
        }
        for fault in faults {
            bad.push(format!("{typo} {fault}: {reported:?}"));
        }
    }
    println!(
        "settings in files: {cases} faults in {} settings",
        settings().len()
    );
    assert!(
        bad.is_empty(),
        "{} are wrong:\n{}",
        bad.len(),
        bad.join("\n")
    );
}

#[test]
fn every_setting_says_what_is_wrong_with_it_in_a_variable() {
    let (mut cases, mut bad) = (0, Vec::new());
    for (path, value) in settings() {
        if path.contains('[') || path == "store.path" {
            continue;
        }
        let variable = format!("CAIRN_{}", path.replace('.', "__").to_uppercase());
        let place = format!("variable {variable}");
        let is_free = FREE.contains(&path.as_str());
        let texts = match value {
            Value::Null | Value::Array(_) => vec![("\x1b[31m\u{202e}", false), ("", false)],
            Value::String(_) => vec![
                ("\x1b[31m\u{202e}", !is_free),
                ("no such value!", !is_free),
                ("", !MAY_BE_EMPTY.contains(&path.as_str())),
            ],
            _ => vec![
                ("\x1b[31m\u{202e}", true),
                ("many", true),
                ("", true),
                ("-1", true),
                ("9".repeat(40).leak(), true),
            ],
        };
        for (text, must_fail) in texts {
            let reported = reported(&file(&[]).0, &[(&variable, text)]);
            cases += 1;
            for fault in wrong(&path, &place, must_fail, &reported) {
                bad.push(format!("{variable}={text:?} {fault}: {reported:?}"));
            }
        }
    }
    println!("settings in variables: {cases} faults");
    assert!(
        bad.is_empty(),
        "{} are wrong:\n{}",
        bad.len(),
        bad.join("\n")
    );
}

/// One wrong value for every setting that has one, all in one file.
#[test]
fn all_faults_of_a_file_are_reported_at_once() {
    let settings = settings();
    let wrong: Vec<(&str, &str)> = settings
        .iter()
        .filter(|(path, value)| path != OPEN && !TABLES.contains(&&**path) && !value.is_null())
        .map(|(path, _)| (path.as_str(), "[[1]]"))
        .collect();
    for count in [2, 10, wrong.len()] {
        let (toml, lines) = file(&wrong[..count]);
        let text = reported(&toml, &[]).expect_err("faults");
        assert!(text.contains(&format!("has {count} faults")), "{text}");
        for ((path, _), line) in wrong.iter().zip(lines) {
            let start = format!("cairn.toml:{line}: {path}");
            assert!(text.contains(&start), "{start:?} is not in {text}");
        }
    }
    println!("{} faults of one file are told at once", wrong.len());
}

/// Arguments and variables.
type Sample<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

#[rustfmt::skip]
const SAMPLES: [Sample<'_>; 10] = [
    (&["check-config"], &[("CAIRN_RUN__MAX_TURNS", "0")]),
    (&["check-config"], &[("CAIRN_RUN__MAX_TURN", "5")]),
    (&["check-config"], &[("OPENAI_API_KEY", CANARY), ("OPENAI_BASE_URL", "nowhere")]),
    (&["check-config"], &[("OPENAI_API_KEY", CANARY), ("CAIRN_MODELS__OPENAI__API_KEYS", CANARY)]),
    (&["check-config", "--log", "loud"], &[]),
    (&["check-config", "--config", "none.toml"], &[]),
    (&["serve", "--listen", "here"], &[]),
    (&["serve", "--grace", "soon"], &[]),
    (&["run", "--pace", "slow", "x"], &[]),
    (&["run", "--model", "\x1b[31m", "x"], &[]),
];

/// The program itself, with a sample: file, variable, flag.
#[test]
fn the_program_ends_with_2_and_says_why() {
    let site = Site::new(CAIRN);
    let mut errors = String::new();
    for (arguments, variables) in SAMPLES {
        let done = site.run_with(arguments, variables);
        let text = format!("{arguments:?} {variables:?}: {done:?}");
        assert_eq!(done.code, Some(2), "{text}");
        assert!(done.err.starts_with("cairn: "), "{text}");
        let all = format!("{}{}", done.out, done.err);
        assert!(
            !all.contains("panicked") && !all.contains("canary"),
            "{text}"
        );
        assert!(!all.contains(|c| is_hidden(c) && c != '\n'), "{text}");
        let given = format!("{arguments:?} {variables:?}").replace(CANARY, "<key>");
        errors.push_str(&format!("--- {given}\n{}", done.err));
    }
    shown::settings(&site).bind(|| insta::assert_snapshot!("faults_of_the_program", errors));
    let nothing = !site.has_store();
    assert!(nothing, "a store was made in spite of faults");
    println!("the program: {} samples", SAMPLES.len());
}
