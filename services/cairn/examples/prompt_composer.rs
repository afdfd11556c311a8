//! Prompts: a template with variables, a condition and a loop; a registry that finds it by name; a
//! missing variable that is an error which names it; and a composer that puts messages together.
//!
//! `cargo run -q -p cairn --example prompt_composer`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::Result;
use cairn_engine::message::{Message, Role};
use cairn_model::prompt::builtin;
use cairn_model::{
    PromptComposer, PromptError, PromptTemplate, PromptTemplateRegistry, TemplateContext,
};
use serde_json::json;

const WAITER: &str = "\
You are a waiter in the {restaurant}. Answer in {language}.
{% if specials is defined %}
Today's specials:
{% for dish in specials %}
- {dish.name}, {dish.price} €
{% endfor %}
{% else %}
There are no specials today.
{% endif %}
Orders are written as JSON: {\"dish\": \"…\", \"table\": 1}";

fn main() -> Result<()> {
    let mut registry = builtin();
    registry.register(PromptTemplate::new("waiter", WAITER));
    registry.register(PromptTemplate::new("guest", "Table {table}: {order}"));
    let waiter = registry.get("waiter")?;

    let evening = TemplateContext::from([("restaurant", "Golden Cairn"), ("language", "English")]);
    let sunday = evening.clone().with(
        "specials",
        json!([{"name": "trout", "price": 18}, {"name": "dumplings", "price": 11}]),
    );

    println!("── a weekday ──\n{}\n", waiter.render(&evening)?);
    assert!(waiter.render(&evening)?.contains("no specials today"));
    println!("── a Sunday ──\n{}\n", waiter.render(&sunday)?);
    let rendered = waiter.render(&sunday)?;
    assert!(rendered.contains("- trout, 18 €\n- dumplings, 11 €\n"));
    // Only a name in braces is a variable, so JSON can stand in a prompt as it is.
    assert!(rendered.ends_with("{\"dish\": \"…\", \"table\": 1}"));

    println!("── what is forgotten is named ──");
    let forgetful = TemplateContext::from([("restaurant", "Golden Cairn")]);
    let Err(missing) = waiter.render(&forgetful) else {
        anyhow::bail!("a missing variable was passed over");
    };
    println!("{missing}");
    assert_eq!(
        missing,
        PromptError::MissingVariable {
            template: "waiter".into(),
            variable: "language".into(),
            line: 1
        }
    );
    let Err(unknown) = registry.get("cook") else {
        anyhow::bail!("there is no cook");
    };
    println!("{unknown}\n");
    assert!(unknown.to_string().contains("guest"));

    conversation(&registry, &sunday)
}

fn conversation(registry: &PromptTemplateRegistry, sunday: &TemplateContext) -> Result<()> {
    println!("── the messages of a conversation ──");
    // A guest who writes like a template stays a guest: values are inserted as they are.
    let change = TemplateContext::new()
        .with("table", 4)
        .with("order", "{restaurant}? {% if hungry %} The trout, please.");
    let messages = PromptComposer::new()
        .system_template(registry.get("waiter")?, sunday)?
        .system("Never promise what the kitchen has not got.")
        .user_template(registry.get("guest")?, &change)?
        .assistant("One trout for table 4!", Vec::new())
        .user("And the bill.")
        .compose();
    for message in &messages {
        let text = message.text().replace('\n', "\n            ");
        println!("{:>10}  {text}", format!("{:?}", message.role));
    }
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(
        roles,
        [Role::System, Role::User, Role::Assistant, Role::User]
    );
    assert!(
        messages[0]
            .text()
            .ends_with("\n\nNever promise what the kitchen has not got.")
    );
    let guest = Message::user("Table 4: {restaurant}? {% if hungry %} The trout, please.");
    assert_eq!(messages[1], guest);
    Ok(())
}
