//! Programs as hooks: real programs, with and without a process that supervises them.
//!
//! Its `main` is its own, as supervising processes are this program once more.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy knows tests by their attribute"
)]

use cairn_engine::event::{AttemptRef, CallRef, Effect};
use cairn_engine::hooks::{
    AskedCall, Gate, HookFailure, MAX_ANSWER, Mutation, Payload, Point, Question, Verdict,
};
use cairn_hooks::{
    Asked, Hook as _, HookError, HookExecutor as _, Policy, ProgramConfig, SystemHooks, ask,
};
use cairn_supervise::{Supervisor, supervise};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

type Test = (&'static str, fn());

const TESTS: [Test; 6] = [
    ("each_end_of_a_program_is_an_answer", ends),
    ("a_script_in_python_reads_and_changes_a_call", python),
    ("a_program_has_the_listed_environment_alone", environment),
    ("a_program_that_cannot_be_run_fails_at_once", missing),
    ("what_a_program_writes_is_bounded", bounded),
    ("a_late_program_is_killed_with_its_children", late),
];

/// Longer than any program here takes.
const LONG: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Some(code) = supervise(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|it| it == word);
    // As test runners ask.
    match (has("--list"), has("--ignored")) {
        (true, true) => {}
        (true, false) => TESTS.iter().for_each(|(name, _)| println!("{name}: test")),
        (false, _) => {
            let is_any_named = TESTS.iter().any(|(name, _)| has(name));
            for (name, test) in TESTS {
                if has(name) || !is_any_named {
                    test();
                    println!("test {name} ... ok");
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// A workspace, and hooks that run programs in it.
struct World {
    folder: TempDir,
    hooks: SystemHooks,
    runtime: Runtime,
}

impl World {
    fn new(is_supervised: bool) -> Self {
        let folder = TempDir::new().unwrap();
        let path = std::env::var_os("PATH").and_then(|path| path.into_string().ok());
        let variables = [
            ("PATH", path.unwrap_or_else(|| "/usr/bin:/bin".to_owned())),
            ("NAMED", "a value".to_owned()),
            ("SECRET", "a secret".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        let supervisor = is_supervised.then(|| Supervisor::this_program().unwrap());
        let at = folder.path().to_owned();
        Self {
            hooks: SystemHooks::new(at, variables.into(), supervisor),
            folder,
            runtime: Runtime::new().unwrap(),
        }
    }

    /// One without a supervising process, and one with it.
    fn both() -> [Self; 2] {
        [false, true].map(Self::new)
    }

    fn ask(&self, argv: &[&str], asked: &Asked) -> Result<Verdict, HookError> {
        let hook = self.hooks.program(&config(argv), LONG);
        self.runtime.block_on(hook.ask(asked))
    }

    /// Runs a script in `sh`, and asks about a call of `ls`.
    fn sh(&self, script: &str) -> Result<Verdict, HookError> {
        self.ask(&["sh", "-c", script], &asked(r#"{"command":"ls"}"#))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn config(argv: &[&str]) -> ProgramConfig {
    ProgramConfig {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: vec!["NAMED".to_owned(), "ABSENT".to_owned()],
    }
}

/// About a call of `shell_exec` with these arguments, before it is made.
fn asked(arguments: &str) -> Asked {
    let attempt = AttemptRef {
        run: 1,
        ..AttemptRef::default()
    };
    let call = AskedCall {
        call: CallRef {
            attempt,
            tool_turn: 0,
            index: 0,
        },
        tool: "shell_exec".to_owned(),
        arguments: arguments.to_owned(),
        asked: None,
        effect: Effect::Effectful,
    };
    Asked {
        key: "k-1".to_owned(),
        namespace: "team".to_owned(),
        session: "s-1".to_owned(),
        hook: "guard".to_owned(),
        question: Question {
            gate: Gate::of_attempt(Point::PreToolCall, attempt, 0),
            index: 0,
            tool: Some(call.tool.clone()),
            context: "main".to_owned(),
            agent: "default".to_owned(),
            model: String::new(),
            turn_index: Some(0),
            step_index: None,
            payload: Payload::Call(call),
        },
        trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            .parse()
            .ok(),
    }
}

fn ends() {
    let block = |reason: &str| Ok(Verdict::Block(reason.to_owned()));
    for world in World::both() {
        for (script, verdict) in [
            ("true", Ok(Verdict::Proceed)),
            ("echo formatted", Ok(Verdict::Proceed)),
            (
                "cat >/dev/null; echo ' no force pushes ' >&2; exit 2",
                block("no force pushes"),
            ),
            ("exit 2", block("the hook gave no reason")),
            (r#"echo '{"answer": "block", "reason": "no"}'"#, block("no")),
            (
                r#"echo '{"answer": "skip", "result": "done"}'"#,
                Ok(Verdict::Skip("done".to_owned())),
            ),
        ] {
            assert_eq!(world.sh(script), verdict, "{script}");
        }
        for (script, says) in [
            ("echo broken >&2; exit 3", "exit status 3: broken"),
            ("exit 127", "exit status 127"),
            ("kill -9 $$", "signal 9"),
            (r#"echo '{"answer": "deny"}'"#, "allowed: proceed"),
        ] {
            let error = world.sh(script).unwrap_err();
            assert!(matches!(error, HookError::Wrong(_)), "{script}: {error:?}");
            assert!(error.to_string().contains(says), "{script}: {error}");
        }
    }
}

fn python() {
    const SCRIPT: &str = r#"
import json, sys
asked = json.load(sys.stdin)
assert asked["hook_event_name"] == "PreToolUse" and asked["tool_name"] == "shell_exec"
asked["tool_input"]["command"] += " --color=never"
print(json.dumps({"hookSpecificOutput": {
    "hookEventName": asked["hook_event_name"],
    "permissionDecision": "allow",
    "updatedInput": asked["tool_input"],
}}))
"#;
    for world in World::both() {
        std::fs::write(world.at("guard.py"), SCRIPT).unwrap();
        // It is larger than a pipe.
        let command = format!("ls {}", "x".repeat(200_000));
        let arguments = format!(r#"{{"command":"{command}"}}"#);
        let answer = world.ask(&["python3", "guard.py"], &asked(&arguments));
        let changed = format!(r#"{{"command":"{command} --color=never"}}"#);
        let mutation = Mutation::Arguments(changed);
        assert!(answer == Ok(Verdict::Mutate(mutation)), "{answer:?}");
        // A program need not read the question.
        let answer = world.ask(&["true"], &asked(&arguments));
        assert_eq!(answer, Ok(Verdict::Proceed));
    }
}

fn environment() {
    for world in World::both() {
        assert_eq!(world.sh("env >seen; pwd -P >>seen"), Ok(Verdict::Proceed));
        let seen = std::fs::read_to_string(world.at("seen")).unwrap();
        let folder = world.folder.path().canonicalize().unwrap();
        for line in [
            "NAMED=a value",
            "CAIRN_HOOK_KEY=k-1",
            "TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            folder.to_str().unwrap(),
        ] {
            assert!(seen.lines().any(|it| it == line), "{line}:\n{seen}");
        }
        assert!(seen.contains("PATH=") && !seen.contains("SECRET"), "{seen}");
        assert!(!seen.contains("ABSENT"), "{seen}");
    }
}

fn missing() {
    for world in World::both() {
        std::fs::write(world.at("closed"), "#!/bin/sh\n").unwrap();
        for (program, cause) in [
            ("no-such-program", "os error 2"),
            ("./absent", "os error 2"),
            ("./closed", "os error 13"),
            ("./closed/below", "os error 20"),
        ] {
            let error = world.ask(&[program], &asked("{}")).unwrap_err();
            assert!(matches!(error, HookError::Wrong(_)), "{error:?}");
            let why = error.to_string();
            let start = format!("its program '{program}' cannot be started in ");
            assert!(why.starts_with(&start) && why.contains(cause), "{why}");
            assert!(!why.contains("its program is"), "{why}");
        }
    }
}

fn bounded() {
    for world in World::both() {
        let script = format!("head -c {} /dev/zero", MAX_ANSWER + 1);
        let error = world.sh(&script).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
        let script = format!("head -c {MAX_ANSWER} /dev/zero");
        assert_eq!(world.sh(&script), Ok(Verdict::Proceed));
        let Ok(Verdict::Block(reason)) = world.sh("yes no | head -c 9999 >&2; exit 2") else {
            panic!("it blocks");
        };
        assert!(reason.len() <= 2048, "{}", reason.len());
    }
}

fn late() {
    for world in World::both() {
        let policy = Policy {
            timeout: Duration::from_secs(3),
            ..Policy::default()
        };
        let script = "sleep 1000 & echo $$ $! >new; mv new ids; wait";
        let hook = world
            .hooks
            .program(&config(&["sh", "-c", script]), policy.timeout);
        let asked = asked("{}");
        let asking = ask(&*hook, &policy, &asked);
        let (verdict, failed, _) = world.runtime.block_on(asking);
        assert_eq!(failed.unwrap().kind, HookFailure::Late);
        assert!(matches!(verdict, Verdict::Block(_)), "{verdict:?}");
        let ids = std::fs::read_to_string(world.at("ids")).unwrap();
        until_ended(&ids);
    }
}

/// Waits until none of these processes runs.
fn until_ended(ids: &str) {
    for _ in 0..500 {
        if ids.split_whitespace().all(has_ended) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("they still run: {ids}");
}

/// One that nobody has waited for yet has ended.
fn has_ended(id: &str) -> bool {
    let shown = Command::new("ps")
        .args(["-o", "stat=", "-p", id])
        .output()
        .unwrap();
    let state = String::from_utf8_lossy(&shown.stdout).trim().to_owned();
    matches!(state.chars().next(), None | Some('Z'))
}
