//! Till: questions that no turn asks are paid by the main team.

use std::sync::{Arc, Mutex, PoisonError};

use hivewright_actors::{
    briefing::Price,
    budget::{Caps, Days, Ledger, Overdrawn, Reservation, Spent},
    clock::Clock,
    engine::Paid,
    ids::MAIN,
    meter::Meter,
    usage::Usage,
};

use crate::system::WallClock;

/// A token is about this many characters.
const CHARACTERS: usize = 4;

/// Where such questions are paid. Cheap to clone.
#[derive(Clone)]
pub struct Till {
    pub ledger: Ledger,
    pub days: Arc<dyn Days>,
    pub meter: Arc<dyn Meter>,
}

/// What one question costs. What it has cost so far is paid when it is dropped.
pub(super) struct Bill {
    till: Till,
    open: Mutex<Option<(Reservation, Usage)>>,
}

impl Till {
    /// Sets aside what a question of this length may cost.
    pub(super) fn open(
        &self,
        caps: Caps,
        price: &Price,
        characters: usize,
    ) -> Result<Bill, Overdrawn> {
        let input = (characters / CHARACTERS) as u64;
        let estimate = Spent {
            tokens: input + price.max_output,
            usd: input as f64 * price.input_usd + price.max_output as f64 * price.output_usd,
        };
        let line = Arc::from([(MAIN.into(), caps)]);
        let day = self.days.day_of(WallClock.now());
        let reservation = self.ledger.reserve(&line, &[], estimate, day)?;
        Ok(Bill { till: self.clone(), open: Mutex::new(Some((reservation, Usage::default()))) })
    }
}

impl Bill {
    /// A try has cost this.
    pub(super) fn add(&self, paid: &Paid) {
        let Paid { profile, usage, .. } = paid;
        self.till.meter.model_called(&MAIN.into(), profile, usage);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, sum)) = &mut *open {
            *sum += *usage;
        }
    }

    /// No more tries follow. It becomes durable with the next call of the main team.
    pub(super) fn settle(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((reservation, usage)) = open.take() {
            self.till.ledger.settle(reservation, Spent::of(&usage));
        }
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        self.settle();
    }
}
