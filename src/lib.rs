//! Presence as a native Redis module.

#[macro_use]
mod sys;
mod announcing;
mod commands;
mod config;
mod events;
mod imports;
mod info;
mod node;
mod perform;
mod registry;
mod room_type;
mod ticker;
mod turns;

use redis_module::raw::RedisModuleCtx;
use redis_module::{Context, RedisString, Status};

use sys::guard;
use sys::log::{log, Level};
use sys::Ctx;

/// The first step of the load, before any of the crate's.
fn prepare(context: *mut RedisModuleCtx) -> Result<(), ()> {
    if let Some(missing) = sys::ffi::first_missing() {
        // SAFETY: the context is valid during the load.
        unsafe { sys::log::log_too_old(context, missing) };
        return Err(());
    }
    // SAFETY: the context is valid during the load.
    sys::log::init(unsafe { Ctx::from_raw(context) });
    guard::install_hook();
    sys::ffi::silence_defrag_warning();
    Ok(())
}

/// Loads the module: what can be refused first, what the server keeps of us last.
fn load(ctx: Ctx<'_>, args: &[RedisString]) -> Result<(), String> {
    ctx.set_options();
    config::load(ctx, args.iter().map(RedisString::as_slice))?;
    node::init();
    let registered = [
        ("the data type", room_type::register(ctx)),
        ("the commands", commands::spec::register(ctx, commands::ALL)),
        ("INFO", info::register(ctx)),
        ("the events", events::listen(ctx)),
    ];
    if let Some((what, _)) = registered.into_iter().find(|&(_, done)| !done) {
        return Err(format!("the server refused {what}"));
    }
    ticker::start(ctx);
    Ok(())
}

fn init(context: &Context, args: &[RedisString]) -> Status {
    // SAFETY: the context is valid during the load.
    let ctx = unsafe { Ctx::from_raw(context.ctx) };
    let loaded = guard::guarded("the load", Err("it panicked".to_owned()), || load(ctx, args));
    match loaded {
        Ok(()) => Status::Ok,
        Err(why) => {
            log(Level::Warning, format_args!("not loaded: {why}"));
            Status::Err
        }
    }
}

/// What the server calls, as the crate generates it.
mod entry {
    use super::{init, prepare, sys};

    /// The crate takes the data types before everything else, so the module's first step poses as one.
    struct FirstStep;

    impl FirstStep {
        fn create_data_type(&self, ctx: *mut redis_module::raw::RedisModuleCtx) -> Result<(), ()> {
            prepare(ctx)
        }
    }

    static FIRST_STEP: FirstStep = FirstStep;

    redis_module::redis_module! {
        name: "presence",
        version: 1,
        allocator: (sys::alloc::ServerAlloc, sys::alloc::ServerAlloc),
        data_types: [FIRST_STEP],
        init: init,
    }
}
