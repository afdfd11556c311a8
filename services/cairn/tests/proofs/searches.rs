//! Searches as slow as they can be: what they take while they run, and how soon they end once their
//! callers have gone.
//!
//! A real `cairn serve tools` searches a line of 4 MiB and files of 16 MiB for an expression whose every
//! byte of text costs the automaton a new state of 3,000 places. `deploy/prove searches` runs 64 of
//! them for longer; the suite runs a short form.
//!
//! With 64 searches, tools stays below 256 MiB, and all threads end soon after their calls are
//! cancelled.

use crate::support::{CAIRN, link};
use cairn_proto::tool_result;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{InvokeToolRequest, ListToolsRequest};
use cairn_rpc::Link;
use cairn_testkit::{PATIENCE, Site};
use clap::Args;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const SLOW: &str = "(?-u)[ab]*a[ab]{3000}[^ab]";
/// What the process may take at its peak.
const MOST_KIB: u64 = 256 * 1024;
/// How long threads may work on after their callers have gone.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// No other call waits so long for the searches.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at what the process does.
const LOOK: Duration = Duration::from_millis(10);
/// A process that does nothing for this long has ended its work.
const QUIET: Duration = Duration::from_millis(500);
/// Clock ticks a second, as `/proc` counts.
const TICKS: u64 = 100;

/// How much is searched. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Searches at one time
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) searches: usize,
    /// Let their callers go after this many seconds of processor time
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) seconds: u64,
}

#[test]
fn slow_searches_take_little_and_end_with_their_callers() {
    prove(&Options {
        searches: 64,
        seconds: 2,
    });
}

/// Lets the searches run, lets their callers go, and panics if they took too much.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let site = site();
    let arguments = ["serve", "tools", "--internal", "127.0.0.1:0", "--json"];
    let mut tools = site.begin(&arguments, &[], "tools.log");
    let line = tools.first_line(PATIENCE).expect("it serves").to_owned();
    let line: Value = serde_json::from_str(&line).expect("JSON");
    let address = line["internal"].as_str().expect("an address").to_owned();
    let process = Process(tools.id());
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let before = process.kib("VmRSS");
        let mut calls = begin(&address, options.searches);
        let (slowest, used) = wait_for(&process, &address, options.seconds, &mut calls).await;
        let running = calls.len();
        calls.abort_all();
        let ended = wait_until_quiet(&process).await;
        let peak = process.kib("VmHWM");
        println!(
            "tools without a search:             {:>6} MiB",
            before / 1024
        );
        println!(
            "tools with {running} searches, at its peak: {:>6} MiB",
            peak / 1024
        );
        println!("processor time until they are cancelled: {used:>6.1?}");
        println!("a list of tools meanwhile, at most: {slowest:>10.1?}");
        println!("after the cancel, until all threads ended: {ended:>6.1?}");
        assert_eq!(running, options.searches, "some ended by themselves");
        assert!(peak <= MOST_KIB, "tools took {peak} KiB");
        assert!(ended <= ENDS_WITHIN, "threads ended after {ended:?}");
        assert!(slowest <= ANSWERS_WITHIN, "an answer took {slowest:?}");
    });
}

/// A folder with one long line, and one with large files of long and of short lines.
fn site() -> Site {
    let site = Site::new(CAIRN);
    let mut state = 1_u32;
    let mut letters = move |count: usize| -> String {
        let mut letter = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ['a', 'b'][(state >> 31) as usize]
        };
        (0..count).map(|_| letter()).collect()
    };
    site.write("line/one.txt", &letters(4 << 20));
    let line = letters(4 << 20);
    site.write("files/long.txt", &[line.as_str(); 4].join("\n")[..16 << 20]);
    let short = letters(8 << 10);
    let short = [short.as_str(); 2048].join("\n");
    for name in ["short-1", "short-2"] {
        site.write(&format!("files/{name}.txt"), &short[..16 << 20]);
    }
    site
}

/// Has the folders searched, each call over a connection of its own.
fn begin(address: &str, searches: usize) -> JoinSet<String> {
    let mut calls = JoinSet::new();
    for number in 0..searches {
        let mut client = client(address);
        let folder = ["line", "files"][number % 2];
        let arguments = json!({"pattern": SLOW, "regex": true, "path": folder});
        calls.spawn(async move {
            let request = InvokeToolRequest {
                name: "search_files".to_owned(),
                arguments_json: arguments.to_string(),
                ..InvokeToolRequest::default()
            };
            match client.invoke_tool(request).await {
                Ok(answer) => match tool_result(answer.into_inner(), usize::MAX, drop).await {
                    Ok(result) => result.output,
                    Err(status) => status.to_string(),
                },
                Err(status) => status.to_string(),
            }
        });
    }
    calls
}

fn client(address: &str) -> ToolsServiceClient<Link> {
    ToolsServiceClient::new(link(address))
}

/// Waits until the process has used so much processor time. The result is the slowest answer to
/// another call meanwhile, and the time used.
async fn wait_for(
    process: &Process,
    address: &str,
    seconds: u64,
    calls: &mut JoinSet<String>,
) -> (Duration, Duration) {
    let mut client = client(address);
    let (began, used_before) = (Instant::now(), process.used());
    let mut slowest = Duration::ZERO;
    while process.used() - used_before < Duration::from_secs(seconds) {
        let asked = Instant::now();
        let answer = client.list_tools(ListToolsRequest::default()).await;
        answer.expect("a list of tools");
        slowest = slowest.max(asked.elapsed());
        if let Some(Ok(output)) = calls.try_join_next() {
            panic!("a search ended: {output}");
        }
        assert!(began.elapsed() < PATIENCE, "the searches do not run");
        tokio::time::sleep(LOOK).await;
    }
    (slowest, process.used() - used_before)
}

/// Waits until the process does nothing more, or for too long. The result is how long it still worked.
async fn wait_until_quiet(process: &Process) -> Duration {
    let began = Instant::now();
    let (mut used, mut last) = (process.used(), began);
    while last.elapsed() < QUIET && began.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK).await;
        let now = process.used();
        if now > used {
            (used, last) = (now, Instant::now());
        }
    }
    last - began
}

/// A process of this user.
struct Process(u32);

impl Process {
    /// A line of its status.
    fn kib(&self, name: &str) -> u64 {
        super::kib(self.0, name)
    }

    /// The processor time of all its threads.
    fn used(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).expect("its state");
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let fields = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = fields
            .map(|ticks| ticks.parse::<u64>().expect("ticks"))
            .sum();
        Duration::from_millis(ticks * 1000 / TICKS)
    }
}
