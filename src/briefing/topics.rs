//! Questions about topics: a model is asked which one a message belongs to, and the main team pays.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    briefing::Price,
    budget::{Caps, Days, Ledger, Overdrawn, Reservation, Spent},
    classifier::Classifier,
    clock::Clock,
    engine::Paid,
    ids::MAIN,
    meter::Meter,
    usage::Usage,
};

use super::{Inner, Turns, choice, is_in_money, lock, part, profiles};
use crate::{engines::Question, system::WallClock};

/// How long a model may think about a topic.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How much it may say about it.
const TOKENS: u32 = 200;
/// What it is told first.
const SYSTEM: &str = "You sort messages into topics. Answer with JSON only.";

impl Classifier for Turns {
    fn ask(&self, question: String) -> BoxFuture<'static, Option<String>> {
        let inner = self.0.clone();
        async move { inner.ask(&question).await }.boxed()
    }
}

impl Inner {
    async fn ask(&self, question: &str) -> Option<String> {
        let providers = self.live.providers().await.ok()?;
        let team = self.live.team(&MAIN.into()).await.ok()?;
        let topic_profile = self.live.held().and_then(|held| held.channels.topics.profile.clone());
        let chosen = match topic_profile {
            Some(profile) => providers.choose(&profile, None),
            None => providers.choose(&team.provider_profile, team.model.as_deref()),
        };
        let chosen = chosen.ok()?;
        let profiles = profiles(&providers);
        let caps = team.budgets;
        if is_in_money(&caps) && part::unpriced(&profiles, &chosen.name).is_some() {
            return None;
        }
        let price = Price { max_output: u64::from(TOKENS), ..part::price(&chosen) };
        let bill = match self.till.open(caps, &price, SYSTEM.len() + question.len()) {
            Ok(bill) => Arc::new(bill),
            Err(overdrawn) => {
                tracing::info!(%overdrawn, "no model is asked about a topic");
                return None;
            }
        };
        let question =
            Question { system: SYSTEM, text: question, max_tokens: TOKENS, timeout: TIMEOUT };
        let paid = bill.clone();
        let pay = Arc::new(move |part| paid.add(&part));
        let asked = self.engines.ask(&profiles, &choice(&chosen), question, pay).await;
        bill.settle();
        match asked {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::info!(%error, "no model helped with a topic");
                None
            }
        }
    }
}

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
struct Bill {
    till: Till,
    open: Mutex<Option<(Reservation, Usage)>>,
}

impl Till {
    /// Sets aside what a question of this length may cost.
    fn open(&self, caps: Caps, price: &Price, characters: usize) -> Result<Bill, Overdrawn> {
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
    fn add(&self, paid: &Paid) {
        let Paid { profile, usage, .. } = paid;
        self.till.meter.model_called(&MAIN.into(), profile, usage);
        let mut open = lock(&self.open);
        if let Some((_, sum)) = &mut *open {
            *sum += *usage;
        }
    }

    /// No more tries follow. It becomes durable with the next call of the main team.
    fn settle(&self) {
        let mut open = lock(&self.open);
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
