//! How long a command of the shell tool may take: the tool ends it then, and a person who is asked about it knows.

use serde::Deserialize;

/// The name of the tool.
pub const SHELL_TOOL: &str = "shell_exec";
/// Seconds that a command may take without an argument of its own.
pub const USUAL_SECONDS: u64 = 120;
/// Most seconds that a command may take.
pub const LONGEST_SECONDS: u64 = 3600;
/// The call may take longer than its command: this long for what is around it.
pub const AROUND_SECONDS: u64 = 30;

#[derive(Deserialize)]
struct Arguments {
    timeout: Option<f64>,
}

/// The whole seconds that a command may take, by the arguments of its call as the model wrote them.
pub fn command_seconds(arguments: &str) -> u64 {
    let given = serde_json::from_str::<Arguments>(arguments).ok();
    match given.and_then(|it| it.timeout) {
        None => USUAL_SECONDS,
        // It saturates, and is within the bounds then.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(seconds) => (seconds.ceil() as u64).clamp(1, LONGEST_SECONDS),
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
            assert_eq!(command_seconds(arguments), seconds, "{arguments}");
        }
    }
}
