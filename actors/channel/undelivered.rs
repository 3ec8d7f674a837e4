//! Undelivered frames: what the operator is told of those that nobody had.

use crate::{
    channel::records::ChannelRow,
    channel_type::ChannelType,
    clock::Timestamp,
    frame::{Body, Frame},
    ids::{ChannelId, NoticeId, TaskId},
    notice::{Notice, NoticeKind},
};

/// So many tasks are named.
const MAX_NAMED: usize = 50;

/// Whoever uses the channel fetches what came of its messages: nothing waits for being sent.
pub fn is_fetched(row: Option<&ChannelRow>) -> bool {
    row.is_some_and(|row| matches!(row.channel_type, ChannelType::Api | ChannelType::Cli))
}

/// Until when the clients of a channel were connected. A chat network is no client: what it has is marked.
pub fn connected_until(row: Option<&ChannelRow>) -> Timestamp {
    let of_clients = row.filter(|row| row.channel_type.is_authenticated());
    of_clients.map_or(Timestamp::default(), |row| row.last_seen)
}

/// A notice of frames that nobody had, if there are any that matter among those that go.
///
/// What was made while the channel was connected has been sent.
pub fn notice<'a>(
    channel: &ChannelId,
    row: Option<&ChannelRow>,
    gone: impl IntoIterator<Item = &'a Frame>,
    id: NoticeId,
    at: Timestamp,
) -> Option<Notice> {
    if is_fetched(row) {
        return None;
    }
    let connected_until = connected_until(row);
    let (mut count, mut refs) = (0_usize, Vec::new());
    for frame in gone {
        if frame.ts <= connected_until {
            continue;
        }
        let Some(task) = end(frame) else { continue };
        count += 1;
        if let Some(task) = task.map(TaskId::to_string)
            && refs.len() < MAX_NAMED
            && !refs.contains(&task)
        {
            refs.push(task);
        }
    }
    let what = match count {
        1 => "1 answer or notification".to_owned(),
        more => format!("{more} answers or notifications"),
    };
    let whose = row.map_or(String::new(), |row| format!(" of `{}`", row.principal));
    let text = format!(
        "{what} for the channel `{channel}`{whose} had to go before anyone had it: nobody came back \
         to the channel in time. The text is in the history of its task."
    );
    (count > 0).then(|| Notice { refs, ..Notice::new(id, NoticeKind::Undelivered, text, at) })
}

/// A notice of a frame that its network does not take, if it matters.
pub fn refused(
    channel: &ChannelId,
    frame: &Frame,
    reason: &str,
    id: NoticeId,
    at: Timestamp,
) -> Option<Notice> {
    let task = end(frame)?;
    let text = format!(
        "An answer or notification could not be brought to the channel `{channel}`: {reason}. \
         The text is in the history of its task."
    );
    let refs = task.map(TaskId::to_string).into_iter().collect();
    Some(Notice { refs, ..Notice::new(id, NoticeKind::Undelivered, text, at) })
}

/// The task of a frame that ends something or tells of it. None if it does neither.
fn end(frame: &Frame) -> Option<Option<&TaskId>> {
    match &frame.body {
        Body::Response(response) => Some(response.task_id.as_ref()),
        Body::Notification(notification) => Some(notification.task_id.as_ref()),
        Body::Error(error) => error.task_id.as_ref().map(Some),
        Body::Ack(_) | Body::Progress(_) | Body::TopicList { .. } => None,
    }
}
