//! Dispatch: how soon a step starts once a slot is free, while all slots are taken by steps that wait
//! for a model.
//!
//! Two executors have a few slots each, and more runs wait than there are slots. The model answers one
//! step after the other; each answer ends a step, whose slot the next step gets. Then one executor is
//! killed, and starts again. `deploy/prove dispatch` measures this 500 times; the suite runs a short
//! form.
//!
//! # Figures
//!
//! `deploy/prove dispatch`, November 2026, a debug build on a virtual machine with 2 cores: from the answer
//! that ends a step to the question of the next one p50 7.6 ms, p99 11.0 ms, at most 25.1 ms. The slots of a
//! killed executor were used again 36 ms after its start.

use crate::support::served::add_model;
use crate::support::{CAIRN, Client, chain, connect, model_step, start};
use cairn_proto::orchestrator::{GetRunRequest, RunStatus};
use cairn_testkit::cluster::Member;
use cairn_testkit::model_server::{Release, parts};
use cairn_testkit::{Cluster, ModelServer, PATIENCE, Site, eventually_async};
use clap::Args;
use serde_json::json;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

/// Processes of each service, in the order of the cluster's services.
const PROCESSES: [usize; 5] = [1, 1, 2, 1, 1];
/// Between two answers of the model. Executors report every 20 ms at most, so a slot that becomes free
/// sooner after another one is reported later.
const PACE: Duration = Duration::from_millis(30);
/// The executors among them.
const EXECUTORS: usize = 2;

/// How many steps wait for how many slots. The defaults are the long form.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Slots of each of the two executors
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) slots: usize,
    /// Steps whose start is measured
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) steps: usize,
}

#[test]
fn a_free_slot_starts_the_next_step_and_comes_back_after_a_kill() {
    prove(&Options {
        slots: 3,
        steps: 24,
    });
}

/// A question to the model: the step waits until it is released.
struct Question {
    release: Release,
    at: Instant,
}

impl Question {
    fn answer(self) -> Instant {
        let complete = json!({"complete": true, "summary": "done"});
        let at = Instant::now();
        self.release.end("done", &[("step", complete)]);
        at
    }
}

/// Measures, and panics if a slot is used twice or is lost.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let (sender, questions) = channel();
    let model = ModelServer::start(move |_| {
        let (release, answer) = parts();
        let at = Instant::now();
        // After the proof has ended, nothing reads the questions.
        let _ = sender.send(Question { release, at });
        answer
    });
    let site = Site::new(CAIRN);
    add_model(&site, &model);
    let slots = options.slots.to_string();
    let variables = [("CAIRN_EXECUTOR__MAX_ATTEMPTS", slots.as_str())];
    let mut cluster = Cluster::several(&site, &variables, PROCESSES);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut client = runtime.block_on(async { connect(&cluster.url()) });
    let taken = options.slots * EXECUTORS;
    let sessions = runtime.block_on(start_all(&mut client, options.steps + 2 * taken));

    let mut open: Vec<_> = (0..taken).map(|_| next(&questions)).collect();
    let mut starts = Vec::new();
    for _ in 0..options.steps {
        assert!(questions.try_recv().is_err(), "a slot is used twice");
        let freed = open.remove(0).answer();
        let question = next(&questions);
        starts.push(question.at - freed);
        open.push(question);
        std::thread::sleep(PACE);
    }
    print(starts);
    let back = kill_and_restart(&mut cluster, &questions, &mut open, options.slots);
    println!(
        "the {} slots of a killed executor are used again {back:.0?} after its start",
        options.slots
    );
    // Nothing ran the first connection meanwhile, and the server has closed it.
    let mut client = runtime.block_on(async { connect(&cluster.url()) });
    runtime.block_on(finish(&mut client, &sessions, &questions, open));
}

async fn start_all(client: &mut Client, count: usize) -> Vec<String> {
    let mut sessions = Vec::with_capacity(count);
    for number in 0..count {
        let run = chain(vec![model_step("wait")]);
        sessions.push(start(client, &format!("run-{number}"), run).await);
    }
    sessions
}

fn next(questions: &Receiver<Question>) -> Question {
    questions.recv_timeout(PATIENCE).expect("a step starts")
}

fn print(mut starts: Vec<Duration>) {
    starts.sort_unstable();
    let percentile = |percent: usize| starts[(starts.len() * percent / 100).min(starts.len() - 1)];
    println!(
        "from the answer that ends a step to the question of the next one, {} times: p50 {:.1?}, \
         p99 {:.1?}, at most {:.1?}",
        starts.len(),
        percentile(50),
        percentile(99),
        starts[starts.len() - 1]
    );
}

/// Kills an executor and starts it again. Its steps, or others, take its slots.
fn kill_and_restart(
    cluster: &mut Cluster<'_>,
    questions: &Receiver<Question>,
    open: &mut Vec<Question>,
    slots: usize,
) -> Duration {
    let killed = Member {
        service: "executor",
        number: 1,
    };
    cluster.kill_member(killed);
    cluster.begin(killed);
    cluster.wait(killed);
    let began = Instant::now();
    open.extend((0..slots).map(|_| next(questions)));
    assert!(questions.try_recv().is_err(), "a slot is used twice");
    began.elapsed()
}

/// Answers all questions until every run has completed.
async fn finish(
    client: &mut Client,
    sessions: &[String],
    questions: &Receiver<Question>,
    open: Vec<Question>,
) {
    for question in open {
        question.answer();
    }
    for session in sessions {
        let run = GetRunRequest {
            session: session.clone(),
            run: 1,
        };
        eventually_async("the run completes", async || {
            questions.try_iter().for_each(|question| {
                question.answer();
            });
            let found = client.get_run(run.clone()).await.expect("a run");
            let status = found.into_inner().run.map(|run| run.status());
            (status == Some(RunStatus::Completed)).then_some(())
        })
        .await;
    }
}
