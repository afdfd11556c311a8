//! Programs as parsers, without a process that supervises them.

use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::plan::PlanDraft;
use cairn_planner::{PlanParseError, ProgramPlanParser, read_plan};
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any program here takes.
const LONG: Duration = Duration::from_secs(60);

async fn read_within(
    limit: Duration,
    argv: &[&str],
    text: &str,
) -> Result<PlanDraft, PlanParseError> {
    let folder = TempDir::new().expect("a folder");
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    let parser = ProgramPlanParser::new(argv, folder.path().to_owned(), limit);
    read_plan(&parser, text).await
}

/// What a script in `sh` makes of a text.
async fn sh(script: &str, text: &str) -> Result<PlanDraft, PlanParseError> {
    read_within(LONG, &["sh", "-c", script], text).await
}

#[tokio::test]
async fn a_program_reads_a_plan_of_any_form() {
    let script = r#"read -r line; printf '{"steps":[{"description":"%s","note":"n"}]}' "$line""#;
    let plan = sh(script, "survey\n").await.expect("a plan");
    assert_eq!(plan.steps[0].description, "survey");
    assert_eq!(plan.steps[0].note, "n", "the program is the operator's");
    // It is larger than a pipe, and the program does not read it.
    let text = "x".repeat(200_000);
    let plan = sh(r#"echo '{"steps":[{"description":"a"}]}'"#, &text).await;
    assert!(plan.is_ok(), "{plan:?}");
}

#[tokio::test]
async fn what_the_text_lacks_is_a_fault_of_the_text() {
    let kind_of = |error: &PlanParseError| Failure::from(error.clone()).kind;
    for (script, reason, says) in [
        (
            "echo ' line 2 has no verb ' >&2; exit 1",
            "ParserRefused",
            "the plan parser refused the answer: line 2 has no verb",
        ),
        ("exit 3", "ParserRefused", "(exit status 3)"),
        ("echo '{}'", "MissingSteps", "missing 'steps' array"),
        (
            r#"echo '{"steps":[]}'"#,
            "NoSteps",
            "a plan needs at least one step",
        ),
        (
            r#"echo '{"steps":[{"description":"a"},{"title":"b"}]}'"#,
            "MissingDescription",
            "step 1 lacks 'description'",
        ),
    ] {
        let error = sh(script, "a").await.expect_err(script);
        assert_eq!(error.reason(), reason, "{script}: {error}");
        assert!(error.to_string().contains(says), "{script}: {error}");
        assert_eq!(kind_of(&error), FailureKind::PlanParse, "{script}");
    }
    let long = sh("yes no | head -c 9999 >&2; exit 1", "a").await;
    let words = long.expect_err("refused").to_string();
    assert!(words.len() < 3000, "{}", words.len());
}

#[tokio::test]
async fn a_program_that_does_not_work_is_a_fault_of_the_configuration() {
    let big = format!("head -c {} /dev/zero", 3 * 1024 * 1024 + 1);
    for (script, says) in [
        ("true", "printed no plan: bad JSON at line 1, column 1: EOF"),
        ("echo nothing", "printed no plan: bad JSON"),
        ("echo '[]'", "printed no plan: the plan must be an object"),
        (r"printf '\377'", "printed no plan: "),
        (
            r#"echo '{"steps":[{"description":"a","dependsOn":[]}]}'"#,
            "printed no plan: steps[0].dependsOn is not a field",
        ),
        ("kill -9 $$", "was ended by signal 9"),
        (big.as_str(), "printed more than 3145728 bytes"),
    ] {
        let failure = Failure::from(sh(script, "a").await.expect_err(script));
        let kind = (failure.kind, failure.reason.as_str());
        assert_eq!(kind, (FailureKind::Config, "ParserFailed"), "{script}");
        let whole = format!("the plan parser 'sh' {says}");
        assert!(failure.message.starts_with(&whole), "{script}: {failure}");
    }
    let missing = read_within(LONG, &["no-such-program"], "a").await;
    let missing = missing.expect_err("it is not there").to_string();
    assert!(missing.contains("'no-such-program' cannot be started: "));
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_ended() {
    let limit = Duration::from_millis(200);
    let late = read_within(limit, &["sleep", "1000"], "a").await;
    let late = late.expect_err("it is late").to_string();
    assert_eq!(late, "the plan parser 'sleep' did not end within 200ms");
}
