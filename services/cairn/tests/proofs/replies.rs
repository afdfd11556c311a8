//! Replies of any size: the executor's memory stays bounded, and a reply over the limit fails its
//! run with the name of the limit.
//!
//! The five services run as processes, and a scripted server of a model sends replies to the
//! executor: in pieces of 1 MiB, in one event, and as a whole body.
//!
//! A reply has 64 MiB in the long form, `deploy/prove replies`. The executor stays below 128 MiB.

use crate::support::CAIRN;
use cairn_testkit::model_server::{Answer, parts, reply};
use cairn_testkit::{Cluster, ModelServer, Output, Site};
use clap::Args;
use serde_json::json;
use std::fmt;
use std::fs;
use std::sync::{Arc, Mutex};

/// What the executor may take at its peak.
const MOST_KIB: u64 = 128 * 1024;
const MIB: usize = 1024 * 1024;
/// The limit without a setting.
const LIMIT: usize = MIB;
/// Room for the call that ends the step, which is a part of the reply.
const CALL: usize = 1024;

/// Which replies are sent. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Sizes of the replies
    #[arg(
        long,
        value_name = "MIB",
        value_delimiter = ',',
        default_value = "1,10,15,64"
    )]
    pub(crate) sizes: Vec<usize>,
}

/// How a reply travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Pieces,
    OneEvent,
    Body,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pieces => "streamed, in pieces of 1 MiB",
            Self::OneEvent => "streamed, in one event",
            Self::Body => "not streamed",
        })
    }
}

#[test]
fn replies_of_any_size_leave_the_executor_small() {
    prove(&Options { sizes: vec![1, 16] });
}

/// Sends replies of each size in each shape, and panics if the executor takes too much memory or a
/// run does not end as it should.
pub(crate) fn prove(options: &Options) {
    let next: Arc<Mutex<Option<Answer>>> = Arc::default();
    let answers = Arc::clone(&next);
    let server = ModelServer::start(move |_| {
        let answer = answers.lock().expect("answers").take();
        answer.unwrap_or_else(|| Answer::Whole(400, "asked more than once".to_owned()))
    });
    let site = site(&server);
    let cluster = Cluster::start(&site, &[]);
    let executor = cluster.process_id("executor").expect("an executor");
    let idle = super::kib(executor, "VmRSS");
    println!("executor without a reply: {:>5} MiB", idle / 1024);
    let mut findings = Vec::new();
    for shape in [Shape::Pieces, Shape::OneEvent, Shape::Body] {
        for size in &options.sizes {
            reset_peak(executor);
            let done = run(&site, &cluster, &next, shape, *size);
            let peak = super::kib(executor, "VmHWM");
            println!(
                "{size:>4} MiB {shape:<28} exit {:?}, executor at its peak: {:>5} MiB",
                done.code,
                peak / 1024
            );
            if peak > MOST_KIB {
                findings.push(format!("{size} MiB {shape}: the executor took {peak} KiB"));
            }
            findings.extend(check(&done, size * MIB));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

fn site(server: &ModelServer) -> Site {
    let site = Site::new(CAIRN);
    let model = format!(
        "\n[model]\ndefault = \"served\"\n[models.served]\nbase_url = \"{}\"\nmodel = \"m\"\n",
        server.url()
    );
    site.append("cairn.toml", &model);
    let plan = json!({"steps": [{"title": "Tell", "description": "Tell something."}]});
    site.write("plan.json", &plan.to_string());
    site
}

/// Runs a step whose one reply has so many bytes; one of the limit's size has just room for the call
/// that ends the step.
fn run(
    site: &Site,
    cluster: &Cluster<'_>,
    next: &Mutex<Option<Answer>>,
    shape: Shape,
    mebibytes: usize,
) -> Output {
    let bytes = mebibytes * MIB;
    let text = "x".repeat(if bytes == LIMIT { bytes - CALL } else { bytes });
    let calls = [("step", json!({"complete": true, "summary": "Told."}))];
    let answer = match shape {
        Shape::Body => reply("whole", &text, &calls),
        Shape::Pieces | Shape::OneEvent => {
            let (release, answer) = parts();
            match shape {
                Shape::OneEvent => release.text(&text),
                _ => {
                    for from in (0..text.len()).step_by(MIB) {
                        release.text(&text[from..text.len().min(from + MIB)]);
                    }
                }
            }
            release.end("end", &calls);
            answer
        }
    };
    *next.lock().expect("answers") = Some(answer);
    let url = cluster.url();
    site.run(&[
        "run",
        "--server",
        &url,
        "--plan",
        "plan.json",
        "--json",
        "--deltas",
    ])
}

/// What is wrong with the end of a run.
fn check(done: &Output, bytes: usize) -> Option<String> {
    if bytes <= LIMIT {
        let is_completed = done.code == Some(0) && done.out.contains("run_completed");
        let end = &done.out[done.out.len().saturating_sub(500)..];
        return (!is_completed).then(|| format!("{bytes} bytes fail: {end} {}", done.err));
    }
    let names = |text: &str| done.out.contains(text);
    let parts = ["run_failed", "reply_too_large", "model.max_reply_bytes"];
    let missing: Vec<_> = parts.iter().filter(|part| !names(part)).collect();
    (!missing.is_empty()).then(|| {
        let end = &done.out[done.out.len().saturating_sub(500)..];
        format!("{bytes} bytes: no {missing:?} in {end} {}", done.err)
    })
}

/// From now on the peak counts anew.
fn reset_peak(process: u32) {
    fs::write(format!("/proc/{process}/clear_refs"), "5").expect("a process of this user");
}
