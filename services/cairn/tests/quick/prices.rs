//! Budgets of money.

use crate::support::CAIRN;
use cairn_testkit::Site;

/// The budget would never stop such a model.
#[test]
fn a_budget_of_money_without_a_price_is_refused_before_there_is_a_session() {
    let site = Site::new(CAIRN);
    site.append(
        "cairn.toml",
        "\n[models.m]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n",
    );
    let run = ["run", "--model", "m", "--max-cost", "1"];
    let refused = site.run(&[&run[..], &["What is here?"]].concat());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let problem = "no price of the model m is known";
    assert!(refused.err.contains(problem), "{refused:?}");
    assert!(site.sessions().is_empty());
    // Without a model there is nothing to pay.
    let plan = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;
    site.write("plan.json", plan);
    let done = site.run(&[&run[..], &["--plan", "plan.json"]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(site.sessions().len(), 1);
}
