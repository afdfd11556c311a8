//! What the tests play with.

mod author;
mod executor;
mod faults;
mod hooks;
mod journal;
mod logged;
mod model;
mod planner;
mod tools;
mod unreadable;
mod world;

pub(crate) use author::{Author, Line};
pub(crate) use executor::{Attempt, reply};
pub(crate) use faults::{Fault, Held, Side};
pub(crate) use hooks::{HOOK, HookQuestion, HookQuestions, definition, with_hook};
pub(crate) use journal::{Kind, count, for_tenant, names};
pub(crate) use logged::panic_at_error;
pub(crate) use model::{Question, real_executor, real_executor_on, real_executor_with};
pub(crate) use tools::Tools;
pub(crate) use unreadable::{put_damaged, put_newer};
pub(crate) use world::{Client, Pages, World, chain, goal, graph, model_step, tool_step};
