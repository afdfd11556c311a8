//! Kill -9 of `cairn serve` before and after the commits of a run whose hooks are a program and a service. Both count the
//! questions by their keys: an answer that was committed is not asked for again, and every other question comes again
//! with the same key. In a file and over Redis.

use super::super::killed::KilledRun;
use super::hosts::{Counts, Host};
use crate::support::commits::{Sweep, kill_around_each};
use crate::support::place::Place;
use crate::support::served::SESSION;
use crate::support::{CAIRN, chain};
use cairn_engine::event::AttemptRef;
use cairn_engine::hooks::{Gate, Point};
use cairn_proto::event as wire;
use cairn_proto::event::settlement::{Outcome, Retry};
use cairn_testkit::{PATIENCE, Site, TestStore, eventually};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Kills at the same time: calls in doubt wait until they can no longer be running.
const AT_ONCE: usize = 4;
/// Questions that may be on their way at a kill: of each of two hooks about both calls of a reply.
const MOST_AGAIN: usize = 4;
/// A run with a limit of its active time has an event where another owner continues it.
const ACTIVE_MS: u64 = 3_600_000;
/// The hook that is a service.
const HOST: &str = "host";

/// Two calls in one reply, and the end of the step.
const PLAYED: &str = r#"{"match": {"step": "Look"}, "replies": [{"tool_calls": [{"name": "list_files", "arguments": {}}, {"name": "record", "arguments": {"what": "one"}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Seen."}}]}]}
"#;
/// The points, as the settings have them.
const POINTS: &str = r#"["OnRunStart", "OnStepStart", "OnTurnStart", "PreRequest", "PostRequest", "PreToolCall", "PostToolCall", "OnTurnEnd", "OnPlanStepComplete"]"#;

/// What kills came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kills {
    pub(super) kills: usize,
    /// Questions that a hook got once.
    pub(super) once: usize,
    /// Questions that it got again.
    pub(super) again: usize,
}

/// A run with its hooks.
struct World {
    run: KilledRun,
    host: Host,
}

/// What a run comes to that no kill disturbs.
struct Reference {
    store: Arc<TestStore>,
    /// The keys of all questions.
    keys: BTreeSet<String>,
}

/// Kills around each commit that the sweep includes, and panics with what is wrong.
pub(super) async fn prove(store: TestStore, sweep: Sweep) -> Kills {
    let (reference, commits) = Reference::prepare(store).await;
    let reference = Arc::new(reference);
    let kill = |side: &'static str, commit: usize| {
        let reference = Arc::clone(&reference);
        let kill = tokio::spawn(async move { Box::pin(reference.kill_once(side, commit)).await });
        async move { kill.await.expect("a kill") }
    };
    let swept = kill_around_each(commits, AT_ONCE, sweep, kill).await;
    swept.check_reached(4);
    let again: usize = swept.killed.iter().sum();
    assert!(
        again > 0 || !swept.is_complete(),
        "no question was on its way at a kill"
    );
    let kills = swept.killed.len();
    Kills {
        kills,
        once: kills * reference.keys.len() - again,
        again,
    }
}

impl Reference {
    /// Runs without a kill, and counts the commits.
    async fn prepare(store: TestStore) -> (Self, usize) {
        let store = Arc::new(store);
        let mut world = World::over(&store, "undisturbed").await;
        let commits = world.run.undisturbed().await;
        let counts = world.counts();
        assert!(counts.values().all(|times| *times == 1), "{counts:?}");
        let keys: BTreeSet<String> = counts.into_keys().collect();
        let answered = answered(&world.run.place.journal(SESSION).0);
        assert_eq!(answered, keys, "each answer is of a question");
        (Self { store, keys }, commits)
    }

    /// Kills once and continues. Returns how many questions came again; none if the run has no such commit.
    async fn kill_once(&self, side: &str, commit: usize) -> Option<usize> {
        let fail = format!("{side}:{commit}");
        let mut world = World::over(&self.store, &format!("{side}-{commit}")).await;
        if !world.run.serve_until_killed(&fail).await {
            return None;
        }
        world.run.place.site.wait_for_programs();
        let before = world.counts();
        let left = world.left();
        world.run.serve("");
        let began = Instant::now();
        while !world.run.has_ended {
            // Over Redis, calls may wait for the end of the lease of the one that was killed.
            if let Err(status) = world.run.watch().await {
                assert!(began.elapsed() < PATIENCE, "{fail}: {status:?}");
                world.run.place.pause().await;
            }
        }
        let events = world.run.place.journal(SESSION).0;
        let durable = match (left, takeovers(&events)) {
            (Some(left), _) => left,
            // No other owner continued the run: it had not begun, or all of it was durable.
            (None, 0) => before.keys().cloned().collect(),
            (None, 1) => durable(&events),
            // On a busy machine the first owner may have lost the run before it was killed.
            (None, _) => return Some(0),
        };
        Some(self.check(&before, &durable, &world.counts(), &fail))
    }

    /// Returns how many questions came again.
    fn check(
        &self,
        before: &Counts,
        durable: &BTreeSet<String>,
        counts: &Counts,
        fail: &str,
    ) -> usize {
        let keys: BTreeSet<String> = counts.keys().cloned().collect();
        assert_eq!(keys, self.keys, "{fail}: other questions");
        for (key, times) in counts {
            let asked = before.get(key).copied().unwrap_or_default();
            match durable.contains(key) {
                // One that nobody had asked at the kill is asked by the next owner.
                true => assert_eq!(
                    *times,
                    asked.max(1),
                    "{fail}: {key} was answered and came again"
                ),
                // A question that left just before the kill may arrive after it.
                false => assert!(
                    (asked + 1..=asked.max(1) + 1).contains(times),
                    "{fail}: {key} was asked {asked} times before and {times} times in all"
                ),
            }
        }
        let came_again = |(key, times): &(&String, &u32)| {
            let asked = before.get(*key).copied().unwrap_or_default();
            **times > asked.max(1)
        };
        let again = counts.iter().filter(came_again).count();
        assert!(again <= MOST_AGAIN, "{fail}: {again} questions came again");
        again
    }
}

impl World {
    async fn over(store: &Arc<TestStore>, name: &str) -> Self {
        let host = Host::start().await;
        let place = Place::beside_others(store, name);
        let program = r#"cat >/dev/null; echo "$CAIRN_HOOK_KEY" >>asked"#;
        let settings = format!(
            "\n[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"\n\
             [[hooks]]\nname = \"program\"\npoints = {POINTS}\ncommand = [\"sh\", \"-c\", '{program}']\n\
             timeout = \"30s\"\n\
             [[hooks]]\nname = \"{HOST}\"\npoints = {POINTS}\nurl = \"{}\"\ntimeout = \"30s\"\n",
            host.url()
        );
        place.site.append("cairn.toml", &settings);
        place.site.write("played.jsonl", PLAYED);
        // A call in doubt is made again.
        let settlement = Some(Outcome::Retry(Retry {}));
        Self {
            run: KilledRun::new(place, run(), settlement),
            host,
        }
    }

    /// How often each question was asked.
    fn counts(&self) -> Counts {
        let mut counts = self.host.questions.asked(HOST);
        let asked = self.run.place.site.read("asked").unwrap_or_default();
        for key in asked.lines() {
            *counts.entry(key.to_owned()).or_default() += 1;
        }
        counts
    }

    /// The keys of all questions whose answers a killed server left in a file. None elsewhere: only another server can
    /// read them, and that continues the run.
    fn left(&self) -> Option<BTreeSet<String>> {
        if !self.run.place.is_file() {
            return None;
        }
        Some(match self.run.place.sessions().is_empty() {
            true => BTreeSet::new(),
            false => answered(&self.run.place.journal(SESSION).0),
        })
    }
}

fn run() -> wire::StartRun {
    let step = wire::PlanStep {
        title: "Look".to_owned(),
        description: "Look around.".to_owned(),
        ..wire::PlanStep::default()
    };
    let limits = wire::LimitOverrides {
        max_active_ms: ACTIVE_MS,
        ..wire::LimitOverrides::default()
    };
    wire::StartRun {
        model: "played".to_owned(),
        limits: Some(limits),
        ..chain(vec![step])
    }
}

/// How often another owner continued the run.
fn takeovers(events: &[Value]) -> usize {
    let taken_over = events.iter().filter(|it| it["kind"] == "run_taken_over");
    taken_over.count()
}

/// The keys of all questions whose answers were durable before another owner continued the run.
fn durable(events: &[Value]) -> BTreeSet<String> {
    let before = events.iter().position(|it| it["kind"] == "run_taken_over");
    answered(&events[..before.unwrap_or(events.len())])
}

/// The keys of all questions whose answers are among the events.
fn answered(events: &[Value]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let answers = events.iter().filter(|it| it["kind"] == "hooks_answered");
    for event in answers {
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
