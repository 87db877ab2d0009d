/* A module whose one command only receives its arguments and answers 0: what no command of a module can do without.
 * Only what it needs of the server's module API is declared here. */
typedef struct Context Context;
typedef struct String String;
typedef int (*Command)(Context *, String **argv, int argc);

static int (*SetModuleAttribs)(Context *, const char *name, int version, int api);
static int (*CreateCommand)(Context *, const char *, Command, const char *flags, int first, int last, int step);
static int (*ReplyWithLongLong)(Context *, long long);

static int noop(Context *ctx, String **argv, int argc) {
    (void)argv;
    (void)argc;
    return ReplyWithLongLong(ctx, 0);
}

int RedisModule_OnLoad(Context *ctx, String **argv, int argc) {
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    (void)argv;
    (void)argc;
    get("RedisModule_SetModuleAttribs", &SetModuleAttribs);
    get("RedisModule_CreateCommand", &CreateCommand);
    get("RedisModule_ReplyWithLongLong", &ReplyWithLongLong);
    SetModuleAttribs(ctx, "noop", 1, 1);
    return CreateCommand(ctx, "noop", noop, "write fast", 1, 1, 1);
}
