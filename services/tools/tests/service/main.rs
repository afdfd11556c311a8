//! The tools service as others see it: over real folders, real programs and a local link.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy knows tests by their attribute, and not the helpers around them"
)]

mod agents;
mod cancel;
mod catalogue;
mod command;
mod edit;
mod escapes;
mod grpc;
mod interrupt;
mod invoke;
mod list;
mod output_links;
mod preview;
mod races;
mod read;
mod search;
mod search_bounds;
mod support;
mod view;
mod view_rules;
mod web_search;
mod workspace_files;
mod workspace_trust;
mod write;
