//! Kills around every commit of a run whose hooks are a program and a service. Both count the questions by their keys: an
//! answer that was committed is not asked for again, and every other question comes again with the same key.

use super::hosts::Host;
use crate::support::CAIRN;
use cairn_engine::event::AttemptRef;
use cairn_engine::hooks::{Gate, Point};
use cairn_testkit::{Journal, Site, eventually};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// The suite kills at one of so many commits.
pub(super) const SAMPLE: usize = 5;
const SESSION: &str = "s";
const SIGKILL: i32 = 9;
/// Questions that may be on their way at a kill: about both calls of a reply.
const AT_ONCE: usize = 2;

/// Two calls in one reply, and the end of the step.
const PLAYED: &str = r#"{"match": {"step": "Look"}, "replies": [{"tool_calls": [{"name": "list_files", "arguments": {}}, {"name": "record", "arguments": {"what": "one"}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Seen."}}]}]}
"#;
/// The points, as the settings have them.
const POINTS: &str = r#"["OnRunStart", "OnStepStart", "OnTurnStart", "PreRequest", "PreToolCall", "PostToolCall", "OnTurnEnd"]"#;

struct World {
    runtime: Runtime,
}

/// A run with its hooks.
struct Place {
    site: Site,
    host: Host,
}

/// How often each question was asked, by its key.
type Counts = BTreeMap<String, u32>;

/// Kills at one of `every` points, and panics with what is wrong.
pub(super) fn prove(every: usize) {
    let began = Instant::now();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let world = World {
        runtime: runtime.expect("a runtime"),
    };
    let (reference, commits) = world.undisturbed();
    let points = (1..=commits).flat_map(|commit| [("before", commit), ("after", commit)]);
    let points: Vec<_> = points.step_by(every).collect();
    let mut repeated = 0;
    for (side, commit) in &points {
        repeated += world.kill(&format!("{side}:{commit}"), &reference);
    }
    println!(
        "{} kills in {:.0?}: {repeated} questions came again, with their keys",
        points.len(),
        began.elapsed()
    );
}

impl World {
    fn place(&self) -> Place {
        let host = self.runtime.block_on(Host::start());
        let site = Site::new(CAIRN);
        let program = r#"cat >/dev/null; echo "$CAIRN_HOOK_KEY" >>asked"#;
        let settings = format!(
            "\n[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"\n\
             [[hooks]]\nname = \"program\"\npoints = {POINTS}\ncommand = [\"sh\", \"-c\", '{program}']\n\
             timeout = \"30s\"\n\
             [[hooks]]\nname = \"host\"\npoints = {POINTS}\nurl = \"{}\"\ntimeout = \"30s\"\n",
            host.url()
        );
        site.append("cairn.toml", &settings);
        site.write("played.jsonl", PLAYED);
        let plan = json!({"steps": [{"title": "Look", "description": "Look around."}]});
        site.write("plan.json", &plan.to_string());
        Place { site, host }
    }

    /// The keys of a run that nothing disturbs, and its commits.
    fn undisturbed(&self) -> (BTreeSet<String>, usize) {
        let place = self.place();
        let count = place.site.path().join("commits");
        let done = place.run(&format!("count:{}", count.display()));
        assert_eq!(done, (Some(0), None));
        let counts = place.counts();
        let twice = counts.values().filter(|count| **count > 1).count();
        assert_eq!(twice, 0, "{counts:?}");
        let answered = answered(&place.site.journal(SESSION));
        let keys: BTreeSet<String> = counts.into_keys().collect();
        assert_eq!(answered, keys, "each answer is of a question");
        let commits = place.site.read("commits").expect("commits are counted");
        (keys, commits.lines().count())
    }

    /// Kills once, continues, and returns how many questions came again.
    fn kill(&self, fail: &str, reference: &BTreeSet<String>) -> usize {
        let place = self.place();
        match place.run(fail) {
            (_, Some(SIGKILL)) => {}
            // A busy machine may make one commit of two.
            (Some(0), None) => return 0,
            ended => panic!("{fail}: {ended:?}"),
        }
        place.site.wait_for_programs();
        let is_there = !place.site.sessions().is_empty();
        let answered = match is_there {
            true => answered(&place.site.journal(SESSION)),
            false => BTreeSet::new(),
        };
        place.go_on(is_there);
        let counts = place.counts();
        let keys: BTreeSet<&String> = counts.keys().collect();
        assert_eq!(keys, reference.iter().collect(), "{fail}");
        let again: BTreeSet<&String> = counts
            .iter()
            .filter(|(_, count)| **count > 1)
            .map(|(key, _)| key)
            .collect();
        let needless: Vec<_> = again
            .iter()
            .filter(|key| answered.contains(**key))
            .collect();
        assert!(needless.is_empty(), "{fail}: asked again {needless:?}");
        // Of each hook.
        assert!(again.len() <= 2 * AT_ONCE, "{fail}: {again:?}");
        again.len()
    }
}

impl Place {
    fn run(&self, fail: &str) -> (Option<i32>, Option<i32>) {
        let run = [
            "run",
            "--session",
            SESSION,
            "--request-id",
            "r",
            "--model",
            "played",
            "--plan",
            "plan.json",
        ];
        let done = self.site.run_with(&run, &[("CAIRN_FAIL_COMMIT", fail)]);
        (done.code, done.signal)
    }

    /// Continues to the end of the run. A call in doubt is made again.
    fn go_on(&self, is_there: bool) {
        if !is_there {
            assert_eq!(self.run("count:/dev/null"), (Some(0), None));
            return;
        }
        for _ in 0..5 {
            let done = self.site.run(&["resume", SESSION]);
            match done.code {
                Some(0) => return,
                Some(3) => self.settle(),
                _ => panic!("{done:?}"),
            }
        }
        panic!("the run does not end");
    }

    fn settle(&self) {
        let pending = self.site.run(&["pending", SESSION, "--json"]);
        for line in pending.out.lines() {
            let pending: Value = serde_json::from_str(line).expect("a line of JSON");
            let id = pending["id"].as_str().expect("an id");
            self.site.wait_for_programs();
            let done = self.site.run(&["decide", SESSION, id, "retry"]);
            assert_eq!(done.code, Some(0), "{done:?}");
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = self.host.questions.asked();
        let asked = self.site.read("asked").unwrap_or_default();
        for key in asked.lines() {
            *counts.entry(key.to_owned()).or_default() += 1;
        }
        counts
    }
}

/// The keys of all questions whose answers the journal has.
fn answered(journal: &Journal) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for event in journal.of_kind("hooks_answered") {
        let gate = gate(&event["gate"]);
        for outcome in event["outcomes"].as_array().expect("outcomes") {
            let gate = match gate.point {
                // The questions about calls before they are made have one gate.
                Point::PreToolCall => Gate {
                    index: number(&outcome["index"]),
                    ..gate
                },
                _ => gate,
            };
            for answer in outcome["answers"].as_array().expect("answers") {
                let hook = answer["hook"].as_str().expect("a name");
                keys.insert(gate.key("default", SESSION, hook));
            }
        }
    }
    keys
}

fn gate(json: &Value) -> Gate {
    let name = json["point"].as_str().expect("a point").replace('_', "");
    let mut points = Point::ALL.iter().copied();
    let point = points.find(|point| point.name().eq_ignore_ascii_case(&name));
    let at = &json["attempt"];
    Gate {
        point: point.expect("a known point"),
        attempt: AttemptRef {
            run: number(&at["run"]),
            step: number(&at["step"]).into(),
            attempt: number(&at["attempt"]),
        },
        turn: number(&json["turn"]),
        index: number(&json["index"]),
    }
}

fn number(json: &Value) -> u32 {
    let number = json.as_u64().expect("a number");
    u32::try_from(number).expect("a small number")
}

/// A hook that has not answered when its run is killed is asked again, with the same key.
#[test]
fn a_question_without_an_answer_is_asked_again_after_a_kill() {
    let site = Site::new(CAIRN);
    let program =
        r#"cat >/dev/null; echo "$CAIRN_HOOK_KEY" >>asked; until [ -e go ]; do sleep 0.05; done"#;
    let hook = format!(
        "\n[[hooks]]\nname = \"slow\"\npoints = [\"OnRunStart\"]\ntimeout = \"60s\"\n\
         command = [\"sh\", \"-c\", '{program}']\n"
    );
    site.append("cairn.toml", &hook);
    let plan = json!({"steps": [{"tool": "list_files", "arguments": {}}]});
    site.write("plan.json", &plan.to_string());
    let run = ["run", "--session", SESSION, "--plan", "plan.json"];
    let running = site.begin(&run, &[], "run.log");
    let asked = || site.read("asked").unwrap_or_default();
    eventually("the hook is asked", || {
        (asked().lines().count() == 1).then_some(())
    });
    // As `kill -9` does.
    drop(running);
    site.write("go", "");
    site.wait_for_programs();
    let done = site.run(&["resume", SESSION]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let asked = asked();
    let keys: Vec<&str> = asked.lines().collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert_eq!(keys[0], keys[1]);
}
