//! `deploy/prove all`: runs of every proof, each of at most four minutes, and one table of them.

use crate::proofs::{Proof, mcp};
use clap::Subcommand as _;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The longest that one run of a proof may take.
const TIME_LIMIT: Duration = Duration::from_secs(240);

/// The options of each run of a proof. A proof that is not named here runs once, in its long form.
fn sizes(proof: &str) -> &'static [&'static str] {
    match proof {
        "crash" => &["--kills 60", "--kills 40 --cluster"],
        "contexts" => &["--kills 20 --operations 500"],
        "conversation" => &["--turns 600"],
        "replicas" => &["--turns 200"],
        "handover" => &["--kills 20"],
        "knowledge" => &["--pages 2000 --rounds 100"],
        "lists" => &["--sessions 5000"],
        "checkpoints" => &["--mib 4", "--mib 4 --redis"],
        "stale" => &["--writes 500", "--without fencing", "--without duplicates"],
        "dispatch" => &["--steps 200"],
        "pool" => &["--seconds 150"],
        "drain" => &["--drains 60"],
        "upgrade" => &["--sessions 60"],
        "commands" => &["--sessions 200"],
        "work" => &["--sampled"],
        "state" => &[
            "--sessions 400 --bound 128",
            "--sessions 48 --kib 240 --bound 8 --model-steps",
            "--sessions 48 --kib 240 --bound 4 --model-steps --messages",
        ],
        _ => &[""],
    }
}

/// A run of a proof.
struct Row {
    proof: String,
    size: &'static str,
    took: Duration,
    end: End,
}

/// How a run of a proof ended.
enum End {
    /// With the last line that it printed.
    Holds(String),
    /// Packages that it needs could not be installed.
    NotRun,
    Fails(String),
}

/// Runs every proof, one after the other, and prints the table. Fails if a proof fails.
pub(crate) fn run() -> ExitCode {
    let proofs = Proof::augment_subcommands(clap::Command::new("prove"));
    let names = proofs.get_subcommands().map(|it| it.get_name().to_owned());
    let mut rows = Vec::new();
    for proof in names {
        for size in sizes(&proof) {
            println!("\n== {proof} {size}");
            let began = Instant::now();
            let end = prove(&proof, size);
            rows.push(Row {
                proof: proof.clone(),
                size,
                took: began.elapsed(),
                end,
            });
        }
    }
    print(&rows);
    match rows.iter().any(|row| matches!(row.end, End::Fails(_))) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Runs one proof in a process of its own, whose output is passed on.
fn prove(proof: &str, size: &str) -> End {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.arg(proof).args(size.split_whitespace());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let (sender, printed) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            // After a timeout nothing reads the lines.
            let _ = sender.send(line);
        }
    });
    let until = Instant::now() + TIME_LIMIT;
    let mut last = String::new();
    // The output ends when the last process that has it ends, or the limit is reached.
    while let Ok(line) = printed.recv_timeout(until.saturating_duration_since(Instant::now())) {
        println!("{line}");
        if !line.trim().is_empty() {
            last = line.trim().to_owned();
        }
    }
    let ended = child.try_wait().expect("its state");
    let ended = ended.or_else(|| match Instant::now() < until {
        true => child.wait().ok(),
        false => None,
    });
    let Some(status) = ended else {
        kill_with_descendants(child.id());
        child.wait().expect("its end");
        return End::Fails(format!("takes longer than {} s", TIME_LIMIT.as_secs()));
    };
    match status.code() {
        Some(0) => End::Holds(last),
        Some(mcp::NOT_RUN) => End::NotRun,
        _ => End::Fails(format!("{status}; its error is above")),
    }
}

/// Kills a process and all that it started, so that the next proof has the machine.
fn kill_with_descendants(process: u32) {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let children: String = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .collect();
    if let Some(id) = Pid::from_raw(process.cast_signed()) {
        // It may have ended by itself.
        let _ = kill_process(id, Signal::KILL);
    }
    for child in children.split_whitespace() {
        kill_with_descendants(child.parse().expect("a process id"));
    }
}

fn print(rows: &[Row]) {
    println!("\n{:<13} {:<52} {:>7}  result", "proof", "size", "time");
    for Row {
        proof,
        size,
        took,
        end,
    } in rows
    {
        let size = if size.is_empty() { "long form" } else { size };
        let end = match end {
            End::Holds(last) => format!("holds: {last}"),
            End::NotRun => "NOT RUN".to_owned(),
            End::Fails(why) => format!("FAILS: {why}"),
        };
        println!("{proof:<13} {size:<52} {:>5} s  {end}", took.as_secs());
    }
    let all: Duration = rows.iter().map(|row| row.took).sum();
    let failed = rows.iter().filter(|row| matches!(row.end, End::Fails(_)));
    println!(
        "{} runs in {} s, {} failed",
        rows.len(),
        all.as_secs(),
        failed.count()
    );
}
