//! How long a command of the shell tool may take: the tool ends it then, and a person who is asked about it knows.

use serde::Deserialize;
use std::time::Duration;

/// The name of the tool.
pub const SHELL_TOOL: &str = "shell_exec";
/// Seconds that a command may take without an argument of its own.
pub const USUAL_SECONDS: u64 = 120;
/// Most seconds that a command may take.
pub const LONGEST_SECONDS: u64 = 3600;
/// The call may take longer than its command: this long for what is around it.
pub const AROUND: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Arguments {
    timeout: Option<f64>,
}

/// The time of a command by the arguments of its call, as the model wrote them.
pub fn command_time(arguments: &str) -> Duration {
    let given = serde_json::from_str::<Arguments>(arguments).ok();
    let seconds = given.and_then(|it| it.timeout);
    let longest = Duration::from_secs(LONGEST_SECONDS);
    let given = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(1.0)).ok());
    match (seconds, given) {
        (None, _) => Duration::from_secs(USUAL_SECONDS),
        (Some(_), given) => given.unwrap_or(longest).min(longest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_command_is_what_its_call_says_within_bounds() {
        for (arguments, seconds) in [
            ("{}", USUAL_SECONDS),
            ("no JSON", USUAL_SECONDS),
            (r#"{"timeout": 5}"#, 5),
            (r#"{"timeout": 5.0, "command": "true"}"#, 5),
            (r#"{"timeout": 0}"#, 1),
            (r#"{"timeout": -3}"#, 1),
            (r#"{"timeout": 1e300}"#, LONGEST_SECONDS),
        ] {
            assert_eq!(command_time(arguments).as_secs(), seconds, "{arguments}");
        }
    }
}
