//! A run that stands at one of its points until it is let go on.

use super::place::Place;
use super::served::{self, SESSION, Watch};
use crate::support::{self, Client};
use cairn_proto::event::event::Kind;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A run that has not come to its point by then stands somewhere else.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the run stands at.
#[derive(Debug, Clone, Copy)]
enum Held {
    /// A question to the model: the step, and how many replies it has.
    Question(&'static str),
    /// A call of a tool: before or after what it does, and what it says.
    Call(&'static str),
}

/// Where the run stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    held: Held,
    /// The step that is under way.
    pub(crate) step: u32,
    /// The calls that have begun.
    pub(crate) begun: &'static [&'static str],
    /// How many results there are once a call with side effects has ended that is under way; 0 if none
    /// is.
    pub(crate) results: usize,
}

const fn point(
    name: &'static str,
    held: Held,
    step: u32,
    begun: &'static [&'static str],
    results: usize,
) -> Point {
    Point {
        name,
        held,
        step,
        begun,
        results,
    }
}

/// All calls of the run.
pub(crate) const ALL: [&str; 4] = ["look", "one", "note", "two"];
const UP_TO_LOOK: &[&str] = &["look"];
const UP_TO_ONE: &[&str] = &["look", "one"];
const UP_TO_NOTE: &[&str] = &["look", "one", "note"];

#[rustfmt::skip]
pub(crate) const POINTS: [Point; 9] = [
    point("before any reply", Held::Question("Work 0"), 1, &[], 0),
    point("in a pure call", Held::Call(r#"before looked {"what":"around"}"#), 1, UP_TO_LOOK, 0),
    point("after a pure call", Held::Question("Work 1"), 1, UP_TO_LOOK, 0),
    point("in an effectful call, before its effect", Held::Call(r#"before recorded {"what":"one"}"#), 1, UP_TO_ONE, 2),
    point("in an effectful call, after its effect", Held::Call(r#"after recorded {"what":"one"}"#), 1, UP_TO_ONE, 2),
    point("after an effectful call", Held::Question("Work 2"), 1, UP_TO_ONE, 0),
    point("after an idempotent call", Held::Question("Work 3"), 1, UP_TO_NOTE, 0),
    point("in a tool step", Held::Call(r#"before recorded {"what":"two"}"#), 2, &ALL, 4),
    point("in the last step", Held::Question("End 0"), 3, &ALL, 0),
];

fn plan() -> Value {
    let model = |title: &str| json!({"title": title, "description": format!("{title} on it.")});
    let pay = json!({"title": "Pay", "tool": "record", "arguments": {"what": "two"}});
    json!({"order": "chain", "steps": [model("Work"), pay, model("End")]})
}

/// Notes that it has begun, and what it did. A call of what `held` names says so and stops, before it
/// does anything or after it.
const SCRIPT: &str = r#"
set -eu
arguments=$(cat)
printf '%s\n' "$arguments" >>begun.log
hold() {
  if [ "$(cat held)" = "$1 ${VERB:-recorded} $arguments" ]; then
    echo held >begun
    read -r _ <go
  fi
}
hold before
printf '%s %s\n' "$CAIRN_CALL_KEY" "$arguments" >>"$LEDGER"
sync "$LEDGER"
hold after
echo "${VERB:-recorded} $arguments"
"#;

pub(crate) struct World {
    pub(crate) place: Place,
    /// Tells when a question is there that is not answered.
    held: Mutex<Receiver<()>>,
    gate: Option<File>,
    /// Other sessions so far.
    others: usize,
    /// The call that a person said to repeat.
    pub(crate) repeated: Option<&'static str>,
    _model: ModelServer,
}

impl World {
    /// A run that stands there.
    pub(crate) async fn at(point: Point, place: Place) -> Self {
        let (question, call) = match point.held {
            Held::Question(question) => (question, "nothing"),
            Held::Call(call) => ("nothing", call),
        };
        let (tell, held) = channel();
        let question = Arc::new(Mutex::new((question, tell)));
        let model = ModelServer::start(move |body| {
            let asked = asked(body);
            let mut question = question.lock().expect("a lock");
            if question.0 == asked {
                question.0 = "nothing";
                question.1.send(()).expect("a test");
                return Answer::Hold;
            }
            answer(&asked)
        });
        let site = &place.site;
        // Until it is released, a call that is held must not come to its time limit.
        let settings = site.read("cairn.toml").expect("settings");
        let patient = settings.replace("time_limit_ms = 2000", "time_limit_ms = 8000");
        assert_ne!(settings, patient, "there is no such limit");
        site.write("cairn.toml", &patient);
        served::add_model(site, &model);
        site.write("record.sh", SCRIPT);
        site.write("held", call);
        site.write("begun.log", "");
        for pipe in ["begun", "go"] {
            let made = Command::new("mkfifo").arg(site.path().join(pipe)).status();
            assert!(made.expect("mkfifo can be started").success());
        }
        let mut world = Self {
            place,
            held: Mutex::new(held),
            gate: None,
            others: 0,
            repeated: None,
            _model: model,
        };
        world.start_server();
        served::start(&mut world.client(), &plan()).await;
        world.wait_until_held(point);
        world
    }

    /// Panics if the run never comes there.
    fn wait_until_held(&self, point: Point) {
        tokio::task::block_in_place(|| match point.held {
            Held::Question(_) => {
                let held = self.held.lock().expect("a lock");
                held.recv_timeout(PATIENCE).expect("a question");
            }
            // Opening a pipe waits for the other side, without end.
            Held::Call(_) => {
                let (tell, reported) = channel();
                let begun = self.place.site.path().join("begun");
                std::thread::spawn(move || tell.send(fs::read_to_string(begun)));
                let begun = reported.recv_timeout(PATIENCE).expect("a call begins");
                assert_eq!(begun.expect("a pipe"), "held\n");
            }
        });
    }

    /// A call that is held continues, and no other is held. A question is not answered any more.
    pub(crate) fn release(&mut self) {
        self.place.site.write("held", "nothing");
        let path = self.place.site.path().join("go");
        let both = OpenOptions::new().read(true).write(true).open(path);
        let gate = self.gate.insert(both.expect("the gate"));
        gate.write_all(b"go\n").expect("the gate opens");
    }

    pub(crate) fn client(&self) -> Client {
        support::connect(self.place.address())
    }

    pub(crate) fn start_server(&mut self) {
        self.place.keep_serving();
    }

    /// As `kill -9` does. Programs of tools that were under way may go on for a moment.
    pub(crate) fn kill_server(&mut self) {
        self.place.kill_server();
    }

    /// Tells the server to stop, and returns when all that it lets go on has ended.
    pub(crate) fn stop_server(&mut self) {
        self.place.stop_server();
        self.place.site.wait_for_programs();
    }

    /// The calls of the run that have begun, in the order of [`ALL`].
    pub(crate) fn begun(&self) -> Vec<&'static str> {
        let log = self.place.site.read("begun.log").expect("a log");
        let times = |name: &str| match name {
            "note" => usize::from(self.place.site.read("cairn-out/note.md").is_some()),
            "look" => log.matches(r#""around""#).count(),
            name => log.matches(&format!("\"{name}\"")).count(),
        };
        let begun = ALL.iter().flat_map(|name| vec![*name; times(name)]);
        begun.collect()
    }

    /// A run in another session comes to its end, so the server does what there is to be done.
    pub(crate) async fn work_on_something_else(&mut self) {
        self.others += 1;
        let session = format!("other-{}", self.others);
        let look = json!({"tool": "look", "arguments": {"what": "elsewhere"}});
        let mut client = self.client();
        served::start_in(&mut client, &session, &json!({"steps": [look]})).await;
        served::wait_for(&mut client, &session, 1, served::is_completed).await;
    }

    /// Waits for the end of the run, and of the server. Each call with side effects was made once, but
    /// for those that were left out. A pure one whose result was lost is made again, and so is one that a
    /// person said to repeat: the program had begun, and died before it did anything.
    pub(crate) async fn check_completes(&mut self, name: &str, left_out: &[&str]) -> Journal {
        let mut client = self.client();
        let mut watch = Watch::after(&mut client, SESSION, 0)
            .await
            .expect("a watch");
        watch.until(served::is_completed).await;
        self.stop_server();
        let journal = self.place.journal(SESSION);
        journal.check();
        let begun = self.begun();
        for call in ALL {
            let times = begun.iter().filter(|it| **it == call).count();
            let may_be_lost = (call == "look" || self.repeated == Some(call)) && times == 2;
            let expected = usize::from(!left_out.contains(&call));
            assert!(
                times == expected || may_be_lost,
                "{name}: {call} in {begun:?}"
            );
        }
        let uses = self.place.site.ledger().uses();
        assert!(uses.values().all(|&times| times == 1), "{name}: {uses:?}");
        journal
    }

    /// Waits until the run has so many results.
    pub(crate) async fn wait_for_results(&self, results: usize) {
        let is_result = |kind: &Kind| matches!(kind, Kind::CallFinished(_));
        served::wait_for(&mut self.client(), SESSION, results, is_result).await;
    }
}

impl Drop for World {
    /// A program that still waits at the gate would wait for ever.
    fn drop(&mut self) {
        self.release();
    }
}

fn asked(body: &Value) -> String {
    let title = served::title(body).expect("a step");
    format!("{title} {}", served::turn(body))
}

fn answer(asked: &str) -> Answer {
    let note = json!({"path": "cairn-out/note.md", "content": "a note\n"});
    match asked {
        "Work 0" => reply("w0", "", &[("look", json!({"what": "around"}))]),
        "Work 1" => reply("w1", "", &[("record", json!({"what": "one"}))]),
        "Work 2" => reply("w2", "", &[("write_file", note)]),
        "Work 3" | "End 0" => served::done(asked),
        other => Answer::Whole(400, format!("nobody should ask {other}")),
    }
}
