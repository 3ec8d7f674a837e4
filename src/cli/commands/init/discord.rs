//! `hivewright init --discord`: from the token of a bot to settings with which it answers.

use std::io::{self, IsTerminal};

use clap::Args;
use zeroize::Zeroizing;

use crate::{
    channels::discord::rest::{self, Rest},
    cli::{blocking::blocking, context::Context, failure::Failure, prompt, screen::complain},
    settings::{
        channels::{Discord, Snowflake},
        scaffold::DiscordSettings,
        secret::Secret,
    },
};

#[derive(Debug, Default, PartialEq, Args)]
pub(super) struct Flags {
    /// Set up a bot on Discord: asks for its token, or reads it from standard input, and checks it
    #[arg(long)]
    pub(super) discord: bool,
    /// A channel that the bot listens to, by its id; without one it is asked for at a terminal, and may be all
    #[arg(long, value_name = "ID", requires = "discord")]
    discord_channel: Vec<Snowflake>,
    /// A person whom the bot answers, by their id; without one it is asked for at a terminal
    #[arg(long, value_name = "ID", requires = "discord")]
    discord_user: Vec<Snowflake>,
    /// Where Discord's API is
    #[arg(long, value_name = "URL", requires = "discord", hide = true)]
    discord_api: Option<String>,
}

/// A bot that Discord knows.
pub(super) struct Bot {
    pub(super) token: Zeroizing<String>,
    pub(super) settings: DiscordSettings,
    pub(super) name: String,
    pub(super) invite: String,
}

/// Asks for what is not given, and checks the token. Nothing is written yet.
pub(super) async fn meet(flags: Flags) -> Result<Bot, Failure> {
    let token = blocking(|| prompt::secret("Token of the bot (it is not shown): ")).await?;
    let token = String::from_utf8(token.to_vec()).unwrap_or_default().trim().to_owned();
    let token = Zeroizing::new(token);
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage("a bot's token has only printable characters, and no spaces"));
    }
    let api_url = flags.discord_api.clone().unwrap_or_else(|| Discord::default().api_url);
    let cannot = |error: &dyn std::fmt::Display| Failure::failed(error.to_string());
    let rest =
        Rest::new(&api_url, Secret::new(token.to_string())).map_err(|error| cannot(&error))?;
    let me = rest.me().await.map_err(|error| cannot(&error))?;
    let invite = rest::invite(me.id);
    let (name, shown) = (me.name.clone(), invite.clone());
    let settings = blocking(move || {
        if io::stdin().is_terminal() {
            complain(&format!("Invite the bot `{}` to your server first: {shown}", me.name));
        }
        Ok(DiscordSettings {
            channels: ids(
                flags.discord_channel,
                "Ids of channels to listen to (empty: all it sees): ",
            )?,
            users: ids(flags.discord_user, "Ids of people to answer (yours first): ")?,
            api_url: flags.discord_api,
        })
    });
    Ok(Bot { token, settings: settings.await?, name, invite })
}

/// Those that were given, or that somebody types, in one line.
fn ids(given: Vec<Snowflake>, question: &str) -> Result<Vec<Snowflake>, Failure> {
    if !given.is_empty() || !io::stdin().is_terminal() {
        return Ok(given);
    }
    loop {
        let line = prompt::line_of(question)?;
        let words = line.split([' ', ',', '\t', '\n', '\r']).filter(|word| !word.is_empty());
        let read = |word: &str| {
            word.parse::<Snowflake>()
                .map_err(|why| format!("`{word}`: {why}; Developer Mode copies it"))
        };
        match words.map(read).collect() {
            Ok(ids) => return Ok(ids),
            // Once more: the token has been typed already.
            Err(why) => complain(&why),
        }
    }
}

impl Bot {
    /// Says what was set up, and what is left to do.
    pub(super) fn explain(&self, context: &Context, is_written: bool) {
        let Self { settings, name, invite, .. } = self;
        let screen = context.screen;
        screen.say(&format!("The token is of the bot `{}`.", screen.harmless(name)));
        screen.say(&format!("Invite it to your server: {invite}"));
        screen
            .say("Turn on its Message Content Intent: https://discord.com/developers/applications");
        if !is_written {
            let file = context.home.channels_file();
            screen.say(&format!(
                "{} was there already and stays as it is. Add to it:",
                file.display()
            ));
            screen.say(&settings.text());
        }
        match settings.users.first() {
            None => screen.remark(&format!(
                "nobody is let in yet: {}",
                context.command("trust add discord:<your id>")
            )),
            Some(user) => screen.remark(&format!(
                "once the service runs, let yourself decide on approvals there: {}",
                context.command(&format!("identity link discord:{user} operator"))
            )),
        }
    }
}
