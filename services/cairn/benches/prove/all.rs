//! `deploy/prove all`: every proof in a size that takes at most four minutes, and one table of them.

use crate::proofs::Proof;
use clap::Subcommand as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The longest that one proof may take.
const MOST: Duration = Duration::from_secs(240);

/// The options of each run of a proof. A proof that is not named here runs once, in its long form.
fn sizes(proof: &str) -> &'static [&'static str] {
    match proof {
        "crash" => &["--kills 60", "--kills 40 --cluster"],
        "contexts" => &["--kills 20 --operations 500"],
        "conversation" => &["--turns 600"],
        "replicas" => &["--turns 200"],
        "handover" => &["--kills 20"],
        "lists" => &["--sessions 5000"],
        "checkpoints" => &["--mib 4", "--mib 4 --redis"],
        "stale" => &["--writes 500", "--without fencing", "--without duplicates"],
        "dispatch" => &["--steps 200"],
        "drain" => &["--drains 60"],
        "commands" => &["--sessions 200"],
        "state" => &[
            "--sessions 200",
            "--sessions 48 --kib 240 --bound 8 --model-steps",
            "--sessions 48 --kib 240 --bound 4 --model-steps --messages",
        ],
        _ => &[""],
    }
}

/// How a run of a proof ended.
struct Row {
    proof: String,
    size: &'static str,
    took: Duration,
    result: Result<String, String>,
}

/// Runs every proof, one after the other, and prints the table. Fails if one of them does.
pub(crate) fn run() -> ExitCode {
    let proofs = Proof::augment_subcommands(clap::Command::new("prove"));
    let names = proofs.get_subcommands().map(|it| it.get_name().to_owned());
    let mut rows = Vec::new();
    for proof in names {
        for size in sizes(&proof) {
            println!("\n== {proof} {size}");
            let began = Instant::now();
            let result = prove(&proof, size);
            let took = began.elapsed();
            rows.push(Row {
                proof: proof.clone(),
                size,
                took,
                result,
            });
        }
    }
    print(&rows);
    match rows.iter().all(|row| row.result.is_ok()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs one proof in a process of its own, whose output is passed on. Returns its last line.
fn prove(proof: &str, size: &str) -> Result<String, String> {
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
    let until = Instant::now() + MOST;
    let mut last = String::new();
    loop {
        match printed.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                println!("{line}");
                if !line.trim().is_empty() {
                    last = line.trim().to_owned();
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => return Err(end(child)),
        }
    }
    let status = child.wait().expect("its end");
    match status.success() {
        true => Ok(last),
        false => Err(format!("{status}: {last}")),
    }
}

/// Kills a proof that takes too long. The processes that it started end with it.
fn end(mut child: Child) -> String {
    child.kill().expect("it can be killed");
    child.wait().expect("its end");
    format!("takes longer than {} s", MOST.as_secs())
}

fn print(rows: &[Row]) {
    println!("\n{:<13} {:<42} {:>7}  result", "proof", "size", "time");
    for Row {
        proof,
        size,
        took,
        result,
    } in rows
    {
        let size = if size.is_empty() { "long form" } else { size };
        let (verdict, last) = match result {
            Ok(last) => ("holds", last),
            Err(last) => ("FAILS", last),
        };
        println!(
            "{proof:<13} {size:<42} {:>5} s  {verdict}: {last}",
            took.as_secs()
        );
    }
    let all: Duration = rows.iter().map(|row| row.took).sum();
    let failed = rows.iter().filter(|row| row.result.is_err()).count();
    println!(
        "{} proofs in {} s, {failed} failed",
        rows.len(),
        all.as_secs()
    );
}
