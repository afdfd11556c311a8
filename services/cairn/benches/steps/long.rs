//! Long sessions: memory, and the cost of a fold and of a watch from the start.
//!
//! # Figures
//!
//! `cargo bench -p cairn --bench steps -- memory`, on the machine that the file `main.rs`
//! describes.
//!
//! - Memory at rest: 29 MiB. Required: 60 MiB. Goal: 40 MiB.
//! - Memory after 10,000 steps: 50 MiB. Required: 100 MiB. Goal: 60 MiB.
//! - Resume of 30,005 events from the last checkpoint: 25 to 37 ms; 11 ms for 15,029 events.
//!   Required: 200 ms for 10,000 events. Goal: 50 ms.
//! - Watch of 30,005 events from the start: 54 to 81 ms; 24 ms for 15,029 events.

use crate::counted::{Calls, Counted};
use crate::support::{
    Client, chain, check_completed, client, node, parts, start, tool_step, watch_to_end,
};
use cairn_model::ModelRegistry;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

/// Memory at rest and after 10,000 steps of one session that nobody watches; then, for sessions of
/// several lengths, the time to run them, to fold them and to watch them from the start.
pub(crate) async fn resume_and_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = Arc::new(Calls::default());
    let mut parts = parts(folder.path(), ModelRegistry::new());
    parts.more_tools.push(Counted::tool(calls.clone()));
    let node = node(parts).await;
    let mut client = client(&node);
    println!("{:<34} {:>9} KiB", "memory at rest", resident());
    let mut sessions = Vec::new();
    for steps in [10_000, 5_008, 2_512] {
        let run = chain(vec![tool_step("counted"); steps]);
        let began = Instant::now();
        let session = start(&mut client, &format!("long-{steps}"), run).await;
        calls.times(&session, steps).await;
        sessions.push((steps, session, began.elapsed()));
        if sessions.len() == 1 {
            println!("{:<34} {:>9} KiB", "memory after 10,000 steps", resident());
        }
    }
    for (steps, session, ran) in &sessions {
        let began = Instant::now();
        let events = watch_to_end(&mut client, session, 0).await;
        let watched = began.elapsed();
        check_completed(&events);
        let folded = time_of_fold(&mut client, session).await;
        println!(
            "{steps:>6} steps, {} events: run {ran:.1?}, watch {watched:.1?}, fold {folded:.1?}",
            events.len()
        );
    }
    node.drain().await;
}

/// The state is folded from the journal for each question.
async fn time_of_fold(client: &mut Client, session: &str) -> std::time::Duration {
    let request = cairn_proto::orchestrator::GetSessionRequest {
        session: session.to_owned(),
    };
    let began = Instant::now();
    client.get_session(request).await.expect("a session");
    began.elapsed()
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok())
        .unwrap_or(0)
}
