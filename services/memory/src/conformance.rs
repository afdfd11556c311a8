//! What every backend must do: one suite, run on each, and once more through gRPC.
//!
//! A case is a plain function over a [`Subject`]. A backend lists them all with
//! [`conformance!`](crate::conformance!), giving a function that makes a subject:
//!
//! ```ignore
//! mod sqlite_in_memory {
//!     cairn_memory::conformance!(super::subject);
//! }
//! ```

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "these are tests: their names say what they show, and they fail by panicking"
)]

mod blobs;
mod checkpoints;
mod children;
mod claims;
mod commands;
mod commits;
mod copies;
mod creation;
mod deletion;
mod documents;
mod entries;
mod following;
mod idle;
mod leases;
mod levels;
mod listing;
mod memory;
mod quarantine;
mod reading;
mod sizes;
mod support;
mod taking;
mod transcripts;
mod waiting;
mod watching;
mod watching_documents;

pub use blobs::*;
pub use checkpoints::*;
pub use children::*;
pub use claims::*;
pub use commands::*;
pub use commits::*;
pub use copies::*;
pub use creation::*;
pub use deletion::*;
pub use documents::*;
pub use entries::*;
pub use following::*;
pub use idle::*;
pub use leases::*;
pub use levels::*;
pub use listing::*;
pub use memory::*;
pub use quarantine::*;
pub use reading::*;
pub use sizes::*;
pub use support::{Subject, client, limits};
pub use taking::*;
pub use transcripts::*;
pub use waiting::*;
pub use watching::*;
pub use watching_documents::*;

/// A case under way.
pub type Case = futures::future::BoxFuture<'static, ()>;

/// A test for each case of the suite. The argument is the path of an async function without
/// parameters that makes a fresh [`Subject`]. With `together` before it, one test has all cases: for
/// subjects that share what takes long to make.
#[macro_export]
macro_rules! conformance {
    ($subject:path) => {
        $crate::conformance!(each $subject);
    };
    ($how:ident $subject:path) => {
        $crate::conformance! {@ $how $subject;
            creation_numbers_events_from_one
            creation_with_an_owner_leases_the_session
            creation_without_an_owner_parks_the_session
            creation_with_an_unhandled_command_queues_the_session
            a_repeated_creation_is_a_duplicate_without_a_lease
            a_repeated_creation_gets_the_lease_that_it_took
            a_repeated_creation_gets_no_lease_that_has_moved_on
            a_creation_with_another_digest_is_refused
            a_creation_of_somebody_elses_session_is_refused
            namespaces_do_not_see_each_other
            concurrent_creations_make_one_session
            a_refused_creation_leaves_nothing
            sessions_are_listed_newest_first_in_pages

            a_listing_has_what_the_owner_noted
            a_listing_goes_by_its_filter
            a_listing_goes_by_a_prefix
            the_latest_is_what_changed_last
            a_listing_goes_by_the_time_of_the_last_change
            a_filtered_listing_comes_in_pages
            pages_stay_valid_while_sessions_change
            who_asks_a_person_is_listed_until_it_is_answered
            a_page_looks_at_a_bounded_number_of_sessions

            a_commit_appends_contiguously
            a_commit_without_events_changes_the_header
            a_repeated_commit_is_answered_as_before
            a_repeated_commit_is_answered_as_before_though_others_appended_since
            a_repeated_commit_says_whether_the_epoch_still_holds
            only_the_last_commit_is_known_by_its_operation
            a_commit_of_another_version_is_a_conflict
            a_commit_after_more_than_the_store_has_tells_that_it_went_back
            a_commit_by_somebody_else_is_fenced
            a_commit_after_parking_is_fenced
            a_frozen_owner_is_fenced_for_ever
            an_expired_lease_admits_its_owner_until_somebody_claims
            a_commit_brings_what_others_appended
            a_commit_that_has_not_seen_its_last_transition_is_a_conflict
            a_commit_that_has_not_seen_what_there_was_at_the_claim_is_a_conflict
            a_commit_that_has_seen_too_much_is_a_conflict
            a_refused_commit_leaves_nothing
            concurrent_commits_of_one_version_happen_once
            many_sessions_commit_at_once
            a_commit_on_nothing_is_not_found

            a_commit_renews_the_lease
            parking_queues_for_the_time
            parking_without_a_time_waits_for_a_command
            parking_with_an_unhandled_command_keeps_the_lease
            parking_after_handling_lets_go
            a_repeated_parking_says_that_it_let_go
            renewing_keeps_leases
            renewing_tells_what_is_lost
            renewing_tells_of_commands_until_they_are_handled
            a_released_session_is_claimable_at_once
            a_session_may_be_given_back_for_later
            releasing_may_be_repeated
            releasing_what_somebody_else_owns_is_fenced

            a_running_lease_is_not_claimed
            an_expired_lease_is_claimed_with_a_higher_epoch
            a_queued_session_is_claimed_when_due
            no_more_is_claimed_than_asked_for
            what_is_due_first_is_claimed_first
            a_tenant_that_queues_much_keeps_no_other_waiting
            turns_go_on_from_claim_to_claim
            who_wants_no_session_is_told_of_its_own
            what_can_be_claimed_is_counted
            one_session_can_be_claimed_and_no_other
            one_session_is_waited_for
            a_claim_of_a_session_that_ended_says_so
            concurrent_claimers_never_get_the_same_session
            a_waiting_claimer_gets_a_new_command
            a_waiting_claimer_gets_a_released_session
            a_waiting_owner_is_told_of_a_command
            an_owner_is_told_of_a_command_that_came_before_it_asked
            an_owner_is_not_told_of_handled_commands
            only_the_owner_is_told_of_a_command
            a_claim_without_waiting_comes_back_with_nothing
            a_claim_tells_nothing_about_the_dead_by_itself

            a_session_is_claimed_at_its_level_and_above
            one_session_above_the_level_is_not_given_by_its_name
            a_command_raises_what_its_session_needs
            a_command_above_the_level_takes_no_lease
            nothing_lowers_what_a_session_needs
            a_copy_needs_what_its_source_needs
            what_a_session_needs_is_listed
            sessions_above_the_level_keep_no_other_waiting
            no_claim_counts_of_a_session_above_the_level
            an_owner_keeps_a_session_that_rises_above_its_level
            a_session_given_back_waits_for_a_higher_level
            a_waiting_claimer_of_a_higher_level_gets_the_session
            what_can_be_claimed_is_counted_by_level
            a_session_that_waits_for_a_higher_level_does_not_go

            sessions_that_wait_are_listed_the_longest_first
            sessions_of_all_namespaces_are_listed
            a_session_waits_since_its_needs_became_these
            a_repeated_commit_keeps_the_time_of_waiting
            a_session_that_waits_is_woken_once
            a_woken_session_has_the_place_of_a_command
            waking_brings_a_later_time_forward
            a_session_that_is_due_is_not_woken
            a_session_with_an_owner_is_not_woken
            a_session_that_waits_for_nothing_is_not_woken
            a_deleted_session_is_not_woken
            a_session_set_aside_is_not_woken
            claims_that_find_nothing_set_no_session_aside
            a_copy_waits_for_what_its_own_notes_name
            sessions_with_owners_hide_none_that_waits
            many_sessions_of_one_partition_wait_in_their_order
            a_woken_session_above_the_level_stays
            a_waiting_claimer_gets_a_woken_session

            five_claims_without_progress_set_a_session_aside
            claims_whose_answers_are_lost_do_not_count
            a_claim_counts_once_however_often_it_is_renewed
            progress_resets_the_count_of_claims
            empty_commits_are_no_progress
            commits_marked_so_are_no_progress
            clean_ends_are_not_counted
            a_session_set_aside_takes_commands_and_is_not_claimed
            a_session_set_aside_is_released_by_hand
            releasing_a_healthy_session_from_quarantine_does_nothing
            a_session_is_set_aside_whoever_owns_it
            a_queued_session_that_is_set_aside_is_not_claimed
            why_a_session_is_set_aside_is_told
            a_loss_that_was_accepted_is_no_reason_to_set_a_session_aside
            a_loss_is_accepted_before_its_session_goes_on

            a_command_is_appended_once
            what_is_only_to_be_repeated_is_not_appended
            a_request_id_with_another_digest_is_refused
            request_ids_belong_to_one_session
            the_creating_request_is_known_to_commands
            a_command_wakes_a_parked_session
            a_command_brings_a_later_time_forward
            a_command_does_not_queue_a_leased_session
            a_command_for_an_expired_owner_makes_the_session_claimable
            concurrent_repeats_of_a_command_append_once
            concurrent_commands_get_distinct_numbers

            a_command_takes_the_lease_where_none_runs
            a_command_takes_the_lease_of_a_session_that_is_queued
            a_command_takes_a_lease_that_has_run_out
            a_command_takes_no_lease_that_runs
            a_repeated_command_gets_the_lease_that_it_took
            a_repeated_command_gets_no_lease_that_somebody_else_has
            a_repeated_command_takes_nothing_new
            a_command_takes_nothing_of_a_session_set_aside
            leases_taken_with_commands_count_as_claims
            of_concurrent_commands_one_takes_the_lease

            memory_is_set_and_overwritten
            an_absent_key_is_none
            memory_is_removed_and_cleared
            memory_of_sessions_and_namespaces_is_apart
            memory_is_listed_sorted
            each_change_of_memory_is_an_event
            a_change_of_memory_names_its_principal
            an_owners_memory_writes_come_with_its_commit
            a_repeated_commit_writes_memory_once
            memory_does_not_wake_or_hinder_anybody
            memory_is_limited_in_keys
            memory_is_limited_in_bytes
            clients_fill_memory_and_owners_still_set_theirs
            a_transition_is_limited_in_memory_too
            a_transition_may_make_room_in_memory

            metadata_is_set_and_replaced
            a_key_has_its_creation_time_until_it_is_absent
            an_owners_writes_have_the_times_of_its_decisions
            a_child_has_the_entries_that_it_is_given
            metadata_counts_for_the_limits_of_memory

            watching_memory_begins_with_all_of_it
            watching_memory_goes_on_with_every_change
            watching_memory_goes_on_after_any_event
            watching_memory_tells_of_what_is_stored_apart
            watching_memory_ends_with_the_session
            watchers_of_memory_add_up_to_what_is_stored
            watching_memory_tells_metadata_and_times
            a_watcher_that_comes_back_learns_times_of_creation

            events_are_read_in_pages
            a_page_may_begin_inside_a_transition
            a_cursor_at_the_end_reads_nothing
            a_page_is_limited_in_bytes
            a_page_tells_version_and_header
            a_large_transition_is_whole
            time_is_told_and_passes

            following_begins_with_what_there_is
            following_goes_on_with_what_comes
            following_may_begin_in_the_middle
            following_ends_with_the_session
            following_nothing_is_an_error
            following_from_beyond_the_end_is_an_error
            many_followers_get_everything_once
            a_slow_follower_holds_up_nobody_and_misses_nothing
            who_asks_and_is_not_polled_keeps_nobody_waiting
            a_follower_that_comes_and_goes_misses_nothing
            what_is_published_reaches_who_listens_in_order

            the_nearest_checkpoint_is_found
            old_checkpoints_become_sparse
            there_may_be_no_checkpoint
            a_checkpoint_may_be_replaced
            a_checkpoint_beyond_what_was_seen_is_a_conflict
            a_blob_comes_back
            a_blob_may_be_put_again
            a_blob_belongs_to_one_session
            blobs_are_limited

            a_copy_brings_the_blobs_that_its_events_list
            a_copy_of_a_transition_ends_with_its_blobs
            parts_of_results_leave_room_for_events
            blobs_that_no_event_lists_stay_with_the_session
            a_transcript_brings_the_blobs_that_its_events_list
            blobs_of_a_transcript_hold_to_the_limits

            an_event_is_limited_in_bytes
            a_transition_is_limited_in_events
            a_journal_is_limited_in_events_but_for_the_reserve
            a_journal_is_limited_in_bytes_but_for_the_reserve
            a_commit_and_a_page_say_how_full_the_journal_is
            a_full_journal_still_takes_empty_transitions
            what_an_owner_has_not_seen_is_limited
            what_nobody_owns_is_not_limited_by_what_was_seen

            deleting_removes_everything
            late_writes_to_a_deleted_session_are_terminal
            deleting_again_does_nothing
            a_deleted_session_is_not_claimed_or_renewed
            deleting_touches_no_other_session

            an_idle_session_may_go_after_its_time
            a_session_at_work_does_not_go
            a_change_keeps_a_session
            a_time_to_live_counts_in_place_of_the_default
            a_session_that_may_go_goes_whole_and_says_how
            a_session_that_changed_meanwhile_stays
            no_session_that_may_go_keeps_another
            a_session_goes_once_and_never_with_a_change

            a_cut_falls_back_to_the_end_of_a_transition
            a_copy_of_a_copy_has_the_same_ends
            a_copy_is_not_there_before_it_is_complete
            every_part_of_a_copy_may_be_repeated
            another_request_makes_no_copy_of_the_same_name
            what_cannot_be_copied_is_refused
            a_large_copy_takes_several_calls
            blobs_come_with_the_events_that_name_them
            a_child_is_a_session_of_its_own
            commands_and_requests_are_not_the_childs
            a_child_has_the_time_to_live_of_its_source
            a_session_set_aside_is_copied_and_its_child_is_well
            a_copy_that_is_given_up_is_removed
            a_full_journal_can_be_copied

            a_session_made_from_a_transcript_is_the_same
            a_long_journal_is_read_in_pages
            a_time_to_live_comes_with_the_transcript
            an_archived_session_is_made_again_from_its_transcript
            a_session_that_was_deleted_is_not_made_again
            pages_of_a_transcript_may_be_repeated
            a_transcript_holds_to_the_limits

            documents_are_put_read_and_replaced
            a_write_of_a_document_expects_a_version
            a_repeated_write_of_a_document_is_answered_as_before
            a_deleted_document_leaves_a_tombstone
            deleting_a_document_that_is_not_there_changes_nothing
            documents_of_namespaces_and_kinds_are_apart
            concurrent_writes_that_expect_one_version_happen_once
            documents_are_listed_in_pages
            documents_are_limited_in_bytes
            thousands_of_documents_are_listed_and_watched
            tombstones_of_documents_go_after_thirty_days

            watching_documents_begins_with_all_of_them
            watching_documents_goes_on_with_every_change
            a_watcher_that_was_away_goes_on_or_begins_anew
            a_watcher_that_falls_behind_the_floor_begins_anew
            a_slow_watcher_of_documents_holds_up_nobody
            watchers_of_documents_add_up_to_what_is_stored
        }
    };
    (@ together $subject:path; $($case:ident)+) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn all_cases() {
            let mut failed = Vec::new();
            $(
                // Of one type, for which the compiler builds one task.
                let case: $crate::conformance::Case = Box::pin(async {
                    let subject = $subject().await;
                    $crate::conformance::$case(&subject).await;
                });
                if tokio::spawn(case).await.is_err() {
                    failed.push(stringify!($case));
                }
            )+
            assert!(failed.is_empty(), "these failed: {failed:?}");
        }
    };
    (@ each $subject:path; $($case:ident)+) => {
        $(
            #[tokio::test]
            async fn $case() {
                let subject = $subject().await;
                $crate::conformance::$case(&subject).await;
            }
        )+
    };
}
