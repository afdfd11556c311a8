//! What confined programs cannot do, and what they can: with real programs, as this user and as one without rights.
//!
//! Its `main` is its own, as supervising processes are this program once more.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy knows tests by their attribute"
)]

#[cfg(target_os = "linux")]
mod escapes;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod work;
#[cfg(target_os = "linux")]
mod world;

use cairn_supervise::supervise;
use std::process::ExitCode;

type Test = (&'static str, fn());

#[cfg(target_os = "linux")]
const TESTS: [Test; 8] = [
    ("no_escape_as_this_user", escapes::as_this_user),
    ("no_escape_as_a_user_without_rights", escapes::as_nobody),
    ("what_is_used_up_is_limited", limits::are_kept),
    ("a_command_ends_with_all_that_it_started", limits::ends),
    ("a_store_in_the_workspace_turns_programs_off", limits::store),
    (
        "programs_of_the_settings_are_confined",
        programs::are_confined,
    ),
    ("work_is_done_in_the_workspace", work::is_done),
    ("a_network_is_opened_as_far_as_it_is_set", work::network),
];
#[cfg(not(target_os = "linux"))]
const TESTS: [Test; 0] = [];

fn main() -> ExitCode {
    if let Some(code) = supervise(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|it| it == word);
    #[cfg(target_os = "linux")]
    if has(escapes::NOBODY) {
        escapes::as_this_user();
        return ExitCode::SUCCESS;
    }
    // As test runners ask.
    match (has("--list"), has("--ignored")) {
        (true, true) => {}
        (true, false) => TESTS.iter().for_each(|(name, _)| println!("{name}: test")),
        (false, _) => {
            let named = |name: &str| arguments.iter().any(|it| it == name);
            let is_any_named = TESTS.iter().any(|(name, _)| named(name));
            for (name, test) in TESTS {
                if named(name) || !is_any_named {
                    test();
                    println!("test {name} ... ok");
                }
            }
        }
    }
    ExitCode::SUCCESS
}
