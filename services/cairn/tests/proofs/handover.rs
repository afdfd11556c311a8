//! Kills of tools while it hands arguments to programs: no program starts with a part of them.
//!
//! `deploy/prove handover` makes 1,000 calls; the suite runs a short form.

use crate::support::{CAIRN, link};
use cairn_proto::tool_result;
use cairn_proto::tools::InvokeToolRequest;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_testkit::site::Starting;
use cairn_testkit::{PATIENCE, Site};
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// A program that notes that it began, and how much it was given.
const NOTE: &str = r#"
[[tools.commands]]
name = "note"
description = "Notes how much it was given."
argv = ["sh", "note.sh"]
confine = "none"
time_limit_ms = 20000
parameters = { type = "object" }
"#;
const SCRIPT: &str = r#"
echo "$CAIRN_CALL_KEY" >>began
bytes=$(wc -c)
echo "$CAIRN_CALL_KEY $bytes" >>given
"#;
/// Bytes of the arguments' text: less than a pipe holds, and more.
const SIZES: [usize; 4] = [10, 4_000, 60_000, 200_000];
/// How long after a program's process appeared a kill comes, at most.
const MOMENT_US: u64 = 80_000;

/// How much is done. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Kills
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) kills: usize,
    /// Calls before each kill
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub(crate) calls: usize,
    /// Selects the moments of the kills
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[test]
fn no_program_starts_with_a_part_of_its_arguments() {
    prove(&Options {
        kills: 4,
        calls: 12,
        seed: 1,
    });
}

/// Kills tools this often, and panics if a program was given a part of its arguments.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build();
    let world = World::start(runtime.expect("a runtime"));
    let began = Instant::now();
    for round in 0..options.kills {
        world.round(options, round, true);
    }
    // Without a kill every program is given everything.
    world.round(options, options.kills, false);
    let seen = world.seen();
    let calls = (options.kills + 1) * options.calls;
    println!("calls                       {calls:>6}");
    println!("kills of tools              {:>6}", options.kills);
    println!("programs never started      {:>6}", calls - seen.began);
    println!("programs started            {:>6}", seen.began);
    println!("  given all arguments       {:>6}", seen.whole);
    println!(
        "  ended before they had read{:>6}",
        seen.began - seen.whole - seen.cut.len()
    );
    println!("  given a part              {:>6}", seen.cut.len());
    println!(
        "seconds                     {:>6.0?}",
        began.elapsed().as_secs_f64()
    );
    assert!(seen.cut.is_empty(), "{:?}", seen.cut);
    assert!(
        seen.whole > options.calls,
        "no program was given all before a kill"
    );
    assert!(seen.began < calls, "no kill came in time");
}

struct World {
    runtime: Runtime,
    /// Memory is at home elsewhere: the end of all that runs in `site` is waited for.
    _memory: Starting,
    _home: Site,
    memory: String,
    site: Site,
}

/// What programs noted.
#[derive(Default)]
struct Seen {
    began: usize,
    whole: usize,
    cut: Vec<String>,
}

impl World {
    fn start(runtime: Runtime) -> Self {
        let home = Site::new(CAIRN);
        let (memory, address) = serve(&home, "memory", &[]);
        let site = Site::new(CAIRN);
        site.append("cairn.toml", NOTE);
        site.write("note.sh", SCRIPT);
        Self {
            runtime,
            _memory: memory,
            _home: home,
            memory: address,
            site,
        }
    }

    /// Makes calls, and kills tools when some of the programs are being started.
    fn round(&self, options: &Options, round: usize, kills: bool) {
        let link = format!("--link=memory={}", self.memory);
        let (tools, address) = serve(&self.site, "tools", &[&link]);
        let _inside = self.runtime.enter();
        let mut calls = JoinSet::new();
        for number in 0..options.calls {
            calls.spawn(call(address.clone(), round, number));
        }
        if kills {
            let roll = |what: &str| {
                let mut hasher = DefaultHasher::new();
                (options.seed, round, what).hash(&mut hasher);
                hasher.finish()
            };
            // The first ones may have ended when the last ones begin, and are not seen.
            let children = 1 + roll("children") as usize % (options.calls * 2 / 3).max(1);
            wait_for_children(tools.id(), children);
            // Every other kill comes when a program has read all that it was given.
            match round % 2 {
                0 => std::thread::sleep(Duration::from_micros(roll("moment") % MOMENT_US)),
                _ => self.wait_for_a_whole_one(round),
            }
            drop(tools);
            self.runtime.block_on(calls.shutdown());
        } else {
            let answers = self.runtime.block_on(calls.join_all());
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
            drop(tools);
        }
        self.site.wait_for_programs();
    }

    /// Waits until a program of this round has noted how much it was given.
    fn wait_for_a_whole_one(&self, round: usize) {
        let began = Instant::now();
        let key = format!("call-{round}-");
        while !self.lines("given").contains(&key) {
            assert!(began.elapsed() < PATIENCE, "no program reads its arguments");
            std::thread::yield_now();
        }
    }

    fn lines(&self, name: &str) -> String {
        self.site.read(name).unwrap_or_default()
    }

    fn seen(&self) -> Seen {
        let mut seen = Seen {
            began: self.lines("began").lines().count(),
            ..Seen::default()
        };
        let mut given = BTreeMap::new();
        for line in self.lines("given").lines() {
            let (key, bytes) = line.split_once(' ').expect("a key and a number");
            let before = given.insert(key.to_owned(), bytes.to_owned());
            assert_eq!(before, None, "{key} ran twice");
        }
        for (key, bytes) in given {
            let number = key.rsplit('-').next().and_then(|it| it.parse().ok());
            let all = arguments(number.expect("a number")).len();
            match bytes.trim() == all.to_string() {
                true => seen.whole += 1,
                false => seen.cut.push(format!("{key}: {bytes} of {all} bytes")),
            }
        }
        seen
    }
}

/// Starts a service, and returns it with its address.
fn serve(site: &Site, service: &str, more: &[&str]) -> (Starting, String) {
    let arguments = ["serve", service, "--internal", "127.0.0.1:0", "--json"];
    let arguments = [&arguments[..], more].concat();
    let mut process = site.begin(&arguments, &[], &format!("{service}.log"));
    let line = process.first_line(PATIENCE).expect("it serves").to_owned();
    let line: Value = serde_json::from_str(&line).expect("JSON");
    let address = line["internal"].as_str().expect("an address");
    (process, address.to_owned())
}

/// The arguments of a call, as tools writes them.
fn arguments(number: usize) -> String {
    json!({"text": "x".repeat(SIZES[number % SIZES.len()])}).to_string()
}

async fn call(address: String, round: usize, number: usize) -> Result<String, String> {
    let request = InvokeToolRequest {
        name: "note".to_owned(),
        arguments_json: arguments(number),
        call_key: format!("call-{round}-{number}"),
        // It never comes too late.
        not_after_unix_ms: i64::MAX,
        ..InvokeToolRequest::default()
    };
    let mut client = ToolsServiceClient::new(link(&address));
    let answer = client.invoke_tool(request).await;
    let messages = answer.map_err(|status| status.to_string())?.into_inner();
    let answer = tool_result(messages, usize::MAX, drop).await;
    let answer = answer.map_err(|status| status.to_string())?;
    match answer.is_error {
        true => Err(answer.output),
        false => Ok(answer.output),
    }
}

/// Waits until a process has started this many others.
fn wait_for_children(process: u32, count: usize) {
    let began = Instant::now();
    let mut seen = BTreeSet::new();
    while seen.len() < count {
        assert!(began.elapsed() < PATIENCE, "no programs are started");
        seen.extend(children(process));
        std::thread::yield_now();
    }
}

/// The ids of the processes that a process started and that have not ended.
fn children(process: u32) -> Vec<u32> {
    let child = |entry: std::io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let (id, _) = stat.split_once(' ')?;
        let (_, fields) = stat.rsplit_once(')')?;
        let parent: u32 = fields.split_whitespace().nth(1)?.parse().ok()?;
        (parent == process).then(|| id.parse().ok())?
    };
    let processes = fs::read_dir("/proc").expect("a list of processes");
    processes.filter_map(child).collect()
}
