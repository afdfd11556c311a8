//! What it costs that services are processes of their own, and what watchers get, over real
//! sockets and beside what the machine can do, alternated with it.
//!
//! ```text
//! cargo bench -p cairn --bench apart              all
//! cargo bench -p cairn --bench apart -- five      chains of tool steps over five processes
//! cargo bench -p cairn --bench apart -- redis     the same on Redis, beside three hops and a script
//! cargo bench -p cairn --bench apart -- watchers  1,000 watchers on 100 sessions
//! cargo bench -p cairn --bench apart -- tokens    time to the first token of a turn, beside a bare request
//! cargo bench -p cairn --bench apart -- conversation
//!                                                 10, 100, 500 and 2,000 turns, beside LangGraph
//! ```

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and is over when its world cannot be set up"
)]

mod conversation;
mod five;
#[path = "../../tests/support/mod.rs"]
mod support;
mod tokens;
mod watchers;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

/// As in the program itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_wanted =
        |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(&**word));
    let runtime = cairn::runtime::with_workers(2).expect("a runtime");
    if is_wanted("five") {
        runtime.block_on(five::measure(None));
    }
    // That needs a server's program, and so is not among all.
    if wanted.iter().any(|word| word == "redis") {
        runtime.block_on(five::measure(Some(cairn_testkit::RedisServer::start)));
    }
    if is_wanted("watchers") {
        runtime.block_on(watchers::measure());
    }
    if is_wanted("tokens") {
        runtime.block_on(tokens::measure());
    }
    // That needs the Python package index, and so is not among all.
    if wanted.iter().any(|word| word == "conversation") {
        runtime.block_on(conversation::measure());
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    at(&mut values, 0.5)
}

/// The value below which that part of all values lies.
fn at(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    values[(last as f64 * part) as usize]
}
