//! The disk watch: measures free space, closes the door to new work in time, and tells the operator.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use hivewright_actors::room::{Room, Space};

use crate::{sandbox::quota, text::rough_size};

/// How often free space is measured: seldom while there is enough, else soon enough to open the door again.
const PAUSE: Duration = Duration::from_secs(1);
const SHORT_PAUSE: Duration = Duration::from_millis(250);

/// Measures free space on a thread of its own, which ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct DiskWatch {
    floor: Arc<AtomicU64>,
    _ends: mpsc::Sender<()>,
}

impl DiskWatch {
    /// Measures once before it returns. `tell` gets what the operator should read.
    pub(super) fn start(
        places: Vec<PathBuf>,
        floor: u64,
        room: Room,
        tell: impl Fn(String) + Send + 'static,
    ) -> std::io::Result<Self> {
        let floor = Arc::new(AtomicU64::new(floor));
        let (ends, ended) = mpsc::channel();
        let least = floor.clone();
        let measure = move || {
            let free = places.iter().filter_map(|place| quota::free(place).ok());
            let Some(free) = free.min() else {
                return PAUSE;
            };
            let floor = least.load(Ordering::Relaxed);
            let (before, now) = (room.space(), judge(room.space(), free, floor));
            if before != now {
                room.set(now);
                let text = words(now, free, floor);
                match now {
                    Space::Enough => tracing::info!(free, "{text}"),
                    Space::Low | Space::Full => tracing::warn!(free, "{text}"),
                }
                tell(text);
            }
            if now == Space::Enough { PAUSE } else { SHORT_PAUSE }
        };
        let mut pause = measure();
        std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = measure();
            }
        })?;
        Ok(Self { floor, _ends: ends })
    }

    pub(super) fn set_floor(&self, floor: u64) {
        self.floor.store(floor, Ordering::Relaxed);
    }
}

/// What free space means. What was short must grow by an eighth before it counts as more, so that the
/// answer does not change with every file.
fn judge(before: Space, free: u64, floor: u64) -> Space {
    let margin = |is_short: bool| if is_short { floor / 8 } else { 0 };
    if free < floor + margin(before == Space::Full) {
        Space::Full
    } else if free < 2 * floor + margin(before != Space::Enough) {
        Space::Low
    } else {
        Space::Enough
    }
}

fn words(now: Space, free: u64, floor: u64) -> String {
    let (free, floor) = (rough_size(free), rough_size(floor));
    match now {
        Space::Enough => format!("The disk has enough room again: {free} free."),
        Space::Low => format!(
            "The disk has little room left: {free} free. Below {floor} (`limits.free_space`) no new work is taken in."
        ),
        Space::Full => format!(
            "The disk is nearly full: {free} free, less than {floor} (`limits.free_space`). No new work is taken \
             in (`disk_full`) until there is room; what was accepted goes on, and no restart is needed."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-115
    #[test]
    fn space_is_low_before_it_is_full_and_does_not_flutter() {
        let mut space = Space::Enough;
        let seen = [300, 199, 201, 99, 101, 113, 199, 210, 226].map(|free| {
            space = judge(space, free, 100);
            space
        });

        let expected = [
            Space::Enough,
            Space::Low,
            Space::Low,
            Space::Full,
            Space::Full,
            Space::Low,
            Space::Low,
            Space::Low,
            Space::Enough,
        ];
        assert_eq!(seen, expected);
    }
}
