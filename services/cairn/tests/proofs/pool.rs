//! The pool under load and churn: many sessions need capabilities of few executors, and these are killed, drained,
//! robbed of their tools, given capabilities and taken back all the time.
//!
//! Each step needs none, one or two capabilities. An executor may use some tools, and has the capabilities that they
//! give it. The proof keeps a record of which executor had what and when, and the model's server counts the open
//! questions of each executor, which names itself by the address that it asks.
//!
//! - No slot is used twice: an executor never has more open questions than slots. None is lost: in the end all are
//!   free.
//! - No attempt is placed at a resource that lacks a capability of its step.
//! - Each shortage is reported once and ends once for each wait, nothing is written while an attempt waits for busy
//!   resources, and every session ends.
//!
//! `deploy/prove pool` has 50 executors of 4 slots and 500 sessions at a time, for 4 minutes. The suite runs a short
//! form.

mod churn;
mod record;
mod sessions;

use self::churn::Churn;
use self::record::Record;
use self::sessions::{Load, Tally};
use crate::support::CAIRN;
use crate::support::pool::{Api, tool};
use crate::support::served::{add_model, done};
use cairn_proto::api::Pool;
use cairn_testkit::model_server::{Answer, Asked, Late};
use cairn_testkit::{Cluster, ModelServer, Site};
use clap::Args;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Capabilities that tools give.
const CAPABILITIES: usize = 6;
/// One more, which only registrations give.
const REGISTERED: usize = CAPABILITIES;
const ORCHESTRATORS: usize = 2;
/// The times of the pool. Attempts that lost their capability soon stop, so that there are many of them.
const TIMES: (&str, &str) = ("CAIRN_POOL_TIMES", "300,1500,2000");
/// How long the model takes to answer, at most.
const HELD_MS: u64 = 1500;
/// A question more than there are slots is none if another one ends within this time: its connection was closed, and
/// the thread that serves it has not seen that yet.
const OVERLAP: Duration = Duration::from_secs(1);
/// Ticks of a second in `/proc/PID/stat`.
const TICKS: u64 = 100;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// How much there is. The defaults are the long form.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Executors
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) executors: usize,
    /// Slots of each executor
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) slots: usize,
    /// Sessions with an active run at a time
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) sessions: usize,
    /// Change the executors for this long
    #[arg(long, value_name = "N", default_value_t = 240)]
    pub(crate) seconds: u64,
    /// Selects the needs of steps and the changes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The proof in short: each shortage is reported once and ends once while executors come, go and change.
#[test]
fn no_slot_is_lost_and_no_shortage_is_reported_twice_while_executors_change() {
    prove(&Options {
        executors: 5,
        slots: 2,
        sessions: 24,
        seconds: 4,
        seed: 1,
    });
}

/// The name of a capability by its number.
fn capability(number: usize) -> String {
    format!("skill-{number}")
}

/// The tool that gives it.
fn tool_of(number: usize) -> String {
    format!("use_{number}")
}

/// The name of an executor by its number.
fn executor(number: usize) -> String {
    format!("executor-{number}")
}

/// Loads the pool, prints what it took, and panics with what is wrong.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let record = Arc::new(Record::new(options));
    let asked = record.clone();
    let model = ModelServer::seeing(move |question| plays(&asked, question));
    let site = site(&model, options);
    let mut cluster = start(&site, &model, &record, options);
    let addresses = cluster.addresses("orchestrator");
    let apis: Vec<Api> = addresses.iter().map(|address| Api::at(address)).collect();
    for api in &apis {
        api.pool_until("all executors", |pool| {
            pool.resources.len() == options.executors
        });
    }
    let before = processor_time(&cluster);
    let began = Instant::now();
    let until = began + Duration::from_secs(options.seconds);
    let load = Load::begin(&addresses, &record, until, options);
    let mut churn = Churn::new(&mut cluster, &apis, &record, model.url(), options);
    while Instant::now() < until {
        churn.change();
    }
    churn.restore();
    let changes = churn.changes();
    record.answer_at_once();
    let mut tally = load.end();
    let took = began.elapsed();
    let used = processor_time(&cluster).saturating_sub(before);
    for (number, api) in apis.iter().enumerate() {
        check_slots(&mut tally, number, api);
    }
    println!("changes: {changes}");
    tally.print(took, used);
    tally.findings.extend(record.findings());
    if !tally.findings.is_empty() {
        let of_first = site.tail("orchestrator.log", 20);
        panic!("{}\n{of_first}", tally.findings.join("\n"));
    }
    assert!(tally.waits.busy > 0, "no session waited");
    println!("{} runs ended, and no wait was reported twice", tally.runs);
}

fn site(model: &ModelServer, options: &Options) -> Site {
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    // On a busy machine, short leases end under their owners.
    let settings = settings.replace(r#"lease = "1s""#, r#"lease = "15s""#);
    site.write("cairn.toml", &settings);
    add_model(&site, model);
    let numbers = 0..CAPABILITIES;
    let tools = numbers.clone().map(|number| tool(&tool_of(number)));
    let rows =
        numbers.map(|number| format!("{} = [\"{}\"]\n", capability(number), tool_of(number)));
    let settings = format!(
        "{}\n[capabilities]\n{}\n[executor]\nmax_attempts = {}\n",
        tools.collect::<String>(),
        rows.collect::<String>(),
        options.slots
    );
    site.append("cairn.toml", &settings);
    site
}

/// Starts the services, each executor with an address of the model and tools of its own.
fn start<'a>(
    site: &'a Site,
    model: &ModelServer,
    record: &Record,
    options: &Options,
) -> Cluster<'a> {
    let names: Vec<(String, String)> = (0..options.executors)
        .map(|number| (executor(number), record.tools(number)))
        .collect();
    let executors = names.iter().map(|(name, tools)| (&**name, &**tools));
    let executors: Vec<(&str, &str)> = executors.collect();
    let places = [1, 1, executors.len(), 1, ORCHESTRATORS];
    let mut cluster = Cluster::with_places(site, &[TIMES], [1, 1, 0, 1, 0], places);
    for (number, (name, tools)) in executors.iter().enumerate() {
        churn::begin(&mut cluster, model.url(), number, name, tools);
    }
    let all = cluster.members_of("executor");
    all.iter().for_each(|it| cluster.wait(*it));
    let others = cluster.members_of("orchestrator");
    others.iter().for_each(|it| cluster.begin(*it));
    others.iter().for_each(|it| cluster.wait(*it));
    cluster
}

/// The model: it answers after a while, and counts the open questions of each executor.
fn plays(record: &Arc<Record>, question: &Asked) -> Answer {
    let path = question.line.split(' ').nth(1).unwrap_or_default();
    let number = path.trim_start_matches('/').split('/').next();
    let number = number.and_then(|name| name.strip_prefix("executor-")?.parse().ok());
    let open = record.open(number);
    match done("done") {
        Answer::Whole(_, body) => Answer::Late(Late {
            after: record.hold(),
            body,
            open: Arc::new(open),
        }),
        other => other,
    }
}

/// All slots of all executors are free.
fn check_slots(tally: &mut Tally, number: usize, api: &Api) {
    let is_taken = |pool: &Pool| {
        let taken = pool.resources.iter().filter(|it| it.free_slots != it.slots);
        let taken = taken.map(|it| format!("{}: {} of {}", it.id, it.free_slots, it.slots));
        taken.collect::<Vec<String>>()
    };
    let until = Instant::now() + Duration::from_secs(5);
    let mut taken = is_taken(&api.pool());
    while !taken.is_empty() && Instant::now() < until {
        std::thread::sleep(LOOK);
        taken = is_taken(&api.pool());
    }
    let lost = taken
        .iter()
        .map(|it| format!("orchestrator {number} lost slots of {it}"));
    tally.findings.extend(lost);
}

/// The processor time of the orchestrators.
fn processor_time(cluster: &Cluster<'_>) -> Duration {
    let members = cluster.members_of("orchestrator").into_iter();
    let used = members.filter_map(|member| {
        let process = cluster.process_id_of(member)?;
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let fields = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.filter_map(|it| it.parse::<u64>().ok()).sum();
        Some(Duration::from_millis(ticks * 1000 / TICKS))
    });
    used.sum()
}
