//! Plans: from goals, and from feedback on earlier ones.

use crate::driver::plan_for;
use cairn_engine::message::Message;
use cairn_model::prompt::Prompts;

fn titles(messages: &[Message]) -> Vec<String> {
    let (_, steps) = plan_for(messages);
    steps.into_iter().map(|(title, _)| title).collect()
}

/// The titles between the survey and the report, and the folder.
fn searches(goal: &str) -> (Vec<String>, String) {
    let mut titles = titles(&[Message::user(goal)]);
    assert_eq!(titles.pop().unwrap(), "Write the report");
    let survey = titles.remove(0);
    (titles, survey.strip_prefix("Survey ").unwrap().to_owned())
}

#[test]
fn a_goal_becomes_a_plan() {
    for (goal, words, place) in [
        (
            "Which files mention \"lease\", and what do they say about it?",
            &["lease"][..],
            "",
        ),
        ("Which files under docs mention Redis?", &["Redis"], "docs"),
        (
            "How are leases renewed in services/memory?",
            &["lease", "renewed"],
            "services/memory",
        ),
        (
            "Find `a b` and “曹操” in the docs folder",
            &["a b", "曹操"],
            "docs",
        ),
        ("Look for \"x\" under \"my files\"", &["x"], "my files"),
        ("What happens under load?", &["happen", "load"], ""),
        ("Where does docs/a.md mention TODO?", &["TODO"], "docs/a.md"),
        ("12\" of rope", &["rope"], ""),
    ] {
        let words: Vec<String> = words
            .iter()
            .map(|it| format!("Search for \"{it}\""))
            .collect();
        let place = if place.is_empty() {
            "the workspace"
        } else {
            place
        };
        assert_eq!(searches(goal), (words, place.to_owned()), "{goal}");
    }
    for goal in ["Summarize this project", "", "\"\"", &"the ".repeat(9000)] {
        assert_eq!(searches(goal).0, ["Read how the files begin"], "{goal}");
    }
    let many = searches(&"word1 word2 word3 word4 word5 ".repeat(900)).0;
    assert_eq!(many.len(), 4, "a plan stays small");
}

#[test]
fn feedback_changes_the_plan_from_where_it_must() {
    let goal = Message::user("Which files mention \"epoch\"?");
    let after = |plan: String, feedback: &str| {
        let plan = Message::assistant(plan, vec![]);
        plan_for(&[goal.clone(), plan, Message::user(feedback)])
    };
    let (text, first) = plan_for(std::slice::from_ref(&goal));
    let (text, second) = after(text, "Also search for \"lease\"");
    assert_eq!(second[..2], first[..2], "what holds stays as it is");
    assert_eq!(second[2].0, "Search for \"lease\"");
    // The next feedback is on the plan in force, not on the first one.
    let (text, third) = after(text, "Only in docs, please");
    assert_eq!(third[0].0, "Survey docs");
    assert_eq!(third[2].0, "Search for \"lease\"");
    let (_, last) = after(text, "drop \"epoch\"");
    assert_eq!(last[1].0, "Search for \"lease\"");
    assert_eq!(last.len(), 3);
}

#[test]
fn a_complaint_about_an_answer_is_no_feedback() {
    let goal = Message::user("Find \"Redis\"");
    let (text, plan) = plan_for(std::slice::from_ref(&goal));
    for answer in [text, "no plan".to_owned()] {
        let repair = Prompts::default().plan_repair("step 2 has no \"description\"");
        let repair = repair.unwrap();
        let answer = Message::assistant(answer, vec![]);
        assert_eq!(
            plan_for(&[goal.clone(), answer, Message::user(repair)]).1,
            plan
        );
    }
}
