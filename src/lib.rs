//! Presence as a native Redis module.

#[macro_use]
mod sys;
mod commands;
mod config;

use redis_module::{Context, RedisString, Status};

use sys::guard;
use sys::log::{log, Level};
use sys::Ctx;

/// Loads the module: what can be refused first, what the server keeps of us last.
fn load(ctx: Ctx<'_>, args: &[RedisString]) -> Result<(), String> {
    if let Some(missing) = sys::ffi::first_missing() {
        return Err(format!("this server is too old, it has no {missing}; Redis 7.0, Valkey 7.2 or later is needed"));
    }
    sys::log::init(ctx);
    guard::install_hook();
    ctx.set_options();
    config::load(ctx, args.iter().map(RedisString::as_slice))?;
    if !commands::spec::register(ctx, &[]) {
        return Err("the commands could not be registered".to_owned());
    }
    Ok(())
}

fn init(context: &Context, args: &[RedisString]) -> Status {
    // SAFETY: the context is valid during the load.
    let ctx = unsafe { Ctx::from_raw(context.ctx) };
    let loaded = guard::guarded("the load", Err("it panicked".to_owned()), || load(ctx, args));
    match loaded {
        Ok(()) => Status::Ok,
        Err(why) => {
            log(Level::Warning, format_args!("presence is not loaded: {why}"));
            Status::Err
        }
    }
}

/// What the server calls, as the crate generates it.
mod entry {
    use super::{init, sys};

    redis_module::redis_module! {
        name: "presence",
        version: 1,
        allocator: (sys::alloc::ServerAlloc, sys::alloc::ServerAlloc),
        data_types: [],
        init: init,
    }
}
