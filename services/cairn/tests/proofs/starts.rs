//! The start of an attempt costs the same with 200 tools on offer as with 4: an executor that has the
//! catalogue gets only its name.
//!
//! The five services run as processes. A plan is a chain of steps for the model, each of one turn.

use super::executor_stream::{ExecutorStream, Kind, Passed, THINKS, median};
use crate::support::served::{add_model, done};
use crate::support::{CAIRN, chain, check_completed, connect, model_step, start, watch_to_end};
use cairn_testkit::{Cluster, ModelServer, Site};
use clap::Args;
use std::fmt::Write as _;
use std::thread;
use tokio::runtime::Builder;

const FEW: usize = 4;
const MANY: usize = 200;
/// The tools of the file service, which are always on offer.
const FILE_TOOLS: usize = 4;
/// The most that many tools may add.
const MOST_RATIO: f64 = 1.1;

/// How many attempts are started. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds, each of a run with 4 tools and of one with 200
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rounds: u16,
    /// Steps of each run
    #[arg(long, value_name = "N", default_value_t = 40,
          value_parser = clap::value_parser!(u16).range(2..=200))]
    pub(crate) steps: u16,
    /// Compare bytes only, not times
    #[arg(long)]
    pub(crate) bytes_only: bool,
}

#[test]
fn a_start_with_200_tools_has_as_many_bytes_as_one_with_4() {
    prove(&Options {
        rounds: 1,
        steps: 8,
        bytes_only: true,
    });
}

/// One start of an attempt.
#[derive(Debug, Clone, Copy)]
struct Start {
    bytes: usize,
    /// Processor time of the orchestrator's process from the last reply of the step before to the first
    /// of this one, in µs.
    processor_us: f64,
    /// From the report that ends the step before to the start, in µs: the owner's time and a commit.
    owner_us: f64,
    /// From the start to the report of the first reply, in µs. It includes the request to the model, which
    /// has the tools in it, and the answer.
    executor_us: f64,
}

/// The starts of attempts with so many tools, and the bytes of the catalogues that were sent.
#[derive(Debug, Default)]
struct Measured {
    starts: Vec<Start>,
    catalogues: Vec<usize>,
}

/// Starts attempts with few and with many tools, and panics if many cost more.
pub(crate) fn prove(options: &Options) {
    let thinks = THINKS * u32::from(!options.bytes_only);
    let model = ModelServer::start(move |_| {
        thread::sleep(thinks);
        done("It is done.")
    });
    let sites = [FEW, MANY].map(|tools| site(&model, tools));
    let mut clusters: Vec<_> = sites.iter().map(|site| Cluster::start(site, &[])).collect();
    let streams: Vec<_> = clusters.iter_mut().map(ExecutorStream::within).collect();
    let mut measured = [Measured::default(), Measured::default()];
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for round in 0..options.rounds {
        for at in [0, 1] {
            runtime.block_on(run(&clusters[at].url(), round, usize::from(options.steps)));
            measured[at].add(&streams[at].take());
        }
    }
    let [few, many] = &measured;
    for (tools, measured) in [(FEW, few), (MANY, many)] {
        println!(
            "{tools} tools: {} starts; catalogues sent: {:?} bytes",
            measured.starts.len(),
            measured.catalogues
        );
        assert_eq!(measured.catalogues.len(), 1, "an executor has it");
    }
    assert!(many.catalogues[0] > 5 * few.catalogues[0]);
    compare(few, many, options.bytes_only);
}

fn site(model: &ModelServer, tools: usize) -> Site {
    let site = Site::new(CAIRN);
    let mut settings = "[session]\nlease = \"5s\"\n".to_owned();
    for number in FILE_TOOLS..tools {
        let tool = format!(
            "\n[[tools.commands]]\nname = \"tool-{number}\"\ndescription = \"Weighs what is in place \
             {number} and says how heavy it is, in grams.\"\nargv = [\"true\"]\neffect = \"pure\"\n\
             parameters = {{ type = \"object\", properties = {{ place = {{ type = \"string\" }} }}, \
             required = [\"place\"], additionalProperties = false }}\n"
        );
        settings.write_str(&tool).expect("a string takes it");
    }
    site.write("cairn.toml", &settings);
    add_model(&site, model);
    site.append("cairn.toml", "\n[run]\nmax_turns = 1000\n");
    site
}

async fn run(url: &str, round: u16, steps: usize) {
    let mut client = connect(url);
    let steps = (0..steps).map(|step| model_step(&format!("step {step:03}")));
    let run = chain(steps.collect());
    let session = start(&mut client, &format!("round-{round}"), run).await;
    check_completed(&watch_to_end(&mut client, &session, 0).await);
}

impl Measured {
    /// Takes the starts of a run but its first, before which no step ended.
    fn add(&mut self, passed: &[Passed]) {
        let catalogues = passed.iter().filter(|it| it.kind == Kind::Catalogue);
        self.catalogues.extend(catalogues.map(|it| it.bytes));
        let is_wanted = |it: &&Passed| matches!(it.kind, Kind::Start | Kind::Reply);
        let passed: Vec<_> = passed.iter().filter(is_wanted).collect();
        for three in passed.windows(3) {
            let [before, start, reply] = three else {
                continue;
            };
            if start.kind == Kind::Start {
                let micros = |from: &Passed, to: &Passed| (to.at - from.at).as_secs_f64() * 1e6;
                self.starts.push(Start {
                    bytes: start.bytes,
                    processor_us: reply.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6,
                    owner_us: micros(before, start),
                    executor_us: micros(start, reply),
                });
            }
        }
    }
}

/// A figure of starts: its name, whether it is compared, and how it is read.
type Column = (&'static str, bool, fn(&Start) -> f64);

/// Compares medians: the starts of one run differ a little, those of both are alike.
fn compare(few: &Measured, many: &Measured, bytes_only: bool) {
    let columns: [Column; 4] = [
        ("bytes of a start", true, |start| start.bytes as f64),
        ("orchestrator's processor, µs", !bytes_only, |it| {
            it.processor_us
        }),
        // These two depend as much on the disk and on the model's server.
        ("report to next start, µs", false, |it| it.owner_us),
        ("start to first reply, µs", false, |it| it.executor_us),
    ];
    println!(
        "{:<30} {:>9} {:>9} {:>7}",
        "", "4 tools", "200 tools", "ratio"
    );
    let mut findings = Vec::new();
    for (name, is_compared, value) in columns {
        let middle = |measured: &Measured| {
            let values: Vec<f64> = measured.starts.iter().map(value).collect();
            median(&values)
        };
        let (few, many) = (middle(few), middle(many));
        let ratio = many / few;
        println!("{name:<30} {few:>9.0} {many:>9.0} {ratio:>7.3}");
        if is_compared && ratio > MOST_RATIO {
            findings.push(format!("{name}: {few:.0} with 4 tools, {many:.0} with 200"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
