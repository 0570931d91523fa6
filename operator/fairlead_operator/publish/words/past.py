"""Words of references to past events: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

PAST: Final = listed("""
    a while back, abandoned, abolished, accepted, acquired, admitted, aforementioned, after the accident, after the
    attack, after the death, after the fall, after the fire, after the flood, after the storm, aftermath, age of,
    ago, agreed, allied, already asked, already been, already done, already paid, already seen, ancestor*, ancient,
    annexed, anniversary, announced, answered, antiquity, appointed, approved, argued, arose, as a boy, as a child,
    as a girl, as a kid, as before, asked about, asked for, asked her, asked him, asked me to, asked us, asked you
    to, assassinated, assassination, at the time, attacked, attended, awarded, back in, back then, back when,
    backstory, banished, battle*, became, before my time, before now, before that, before the accident, before the
    fall, before the fire, before the flood, before the storm, before us, began, begun, besieged, betrayal,
    betrayed, billed, blew, bombed, born, borrowed, bronze age, brought, built, buried, burned, burnt, by whom,
    bygone, came after, came back, came before, came from, came through, came to our, came to power, came to settle,
    came to the, camped, canceled, cancelled, captured, carved, cataclysm, caught, cause of the, celebrated,
    centuries, century, chased, childhood, chose, chronicle*, collapsed, commanded, competed, complained, composed,
    confessed, conquered, coronation, created, crossed, crowned, cursed, days back, dead king, dealt with, death of,
    decades, decided, deeds, defeated, delivered, denied, deployed, described, designed, destroyed, diagnosed,
    dictated, did, didn't anyone, didn't he, didn't i, didn't my, didn't our, didn't she, didn't somebody, didn't
    someone, didn't the, didn't they, didn't we, didn't you, died, disappearance, disappeared, discovered,
    discussed, divorced, donated, drawn, dreamed, dreamt, drove, drowned, during her, during his, during my, during
    that, during the, during their, dynasty, earlier, elected, escaped, event, events, ever had, ever since, ever
    was, ever were, executed, exiled, expired, explained, explored, failed, fate of, feared, fell, filmed, first
    age, first emperor, first king, first queen, fled, flew, forebears, forefather*, foresaw, foretold, forged,
    forget what, forgot what, former*, formerly, fought, found, founded, founders, founding of, freed, froze, gave,
    generations, golden age, gone by, got away, got her, got his, got its, got married, got rid, got their,
    graduated, great fire, great flood, grew, guarded, had he, had i, had she, had the, had they, had we, had you,
    hadn't, hanged, happened, harvested, has anybody, has anyone, has he, has it been, has it ever, has my, has our,
    has she, has somebody, has someone, has that, has the, has there been, has there ever, has this, has your,
    hasn't, haunted, have any of, have i already, have i ever, have the others, have there been, have they, have we,
    have you been to, have you ever, haven't i, haven't we, he bought, he called, he came, he had, he knew, he left,
    he moved, he once, he paid, he played, he saw, he taught, he used, he wanted, he won, he wore, heard about,
    heard of, heard some, heard that, heard there, her death, her first, her past, heroes of, hid, hidden by, hidden
    here, hired, his death, his first, his past, histor*, hosted, how bad was, how big was, how come the, how did
    it, how did that, how had, how it ended, how it started, how long has, how long have, how long was, how long
    were, how old was, how old were, how strong was, hunted, i bought from, i came here, i had before, i left at, i
    left in, i moved here, i moved in, i once, i ordered a, i ordered some, i ordered the, i paid for, i paid the, i
    played as, i saw at, i saw in, i saw on, i started here, ice age, imprisoned, in 180*, in 181*, in 182*, in
    183*, in 184*, in 185*, in 186*, in 187*, in 188*, in 189*, in 190*, in 191*, in 192*, in 193*, in 194*, in
    195*, in 196*, in 197*, in 198*, in 199*, in 200*, in 201*, in 202*, in april, in august, in december, in
    eighteen, in february, in january, in july, in june, in march, in my youth, in nineteen, in november, in
    october, in september, in seventeen, in the eighteen, in the eighties, in the fifties, in the first place, in
    the forties, in the log*, in the nineteen, in the nineties, in the notes, in the old, in the seventies, in the
    sixties, in the thirties, in the twenties, in your youth, incident*, inherited, introduced the, invaded,
    invasion of, invented, invited, jog my memory, kept the, kidnapped, killed, knighted, laid to rest, last, late
    husband, late king, late queen, late wife, launched, learned, learnt, left behind, left her, left him, left me,
    left off, left us, legend*, lent, liberated, like before, lived, long before, long dead, long gone, looted, lost
    her, lost his, lost our, lost the, lost their, made a deal, made the, made us, massacre, measured, medieval,
    memories, memory of, mentioned, merged, met, minutes of, moments back, months back, murdered, my first, my past,
    negotiated, nominated, occupied, occurred, offered us, offered you, old king, old queen, old times, olden,
    oldest, once had, once knew, once owned, once said, once served, once stood, once upon a time, origin*,
    originally, our first, our past, outcome of, over the years, overheard, owed, painted, parked, photographed,
    plague, planned, plundered, poisoned, predecessor*, prehistoric, prescribed, presented, previous*, promised,
    promoted, prophesied, protested, published, quoted, raided, raised, razed, rebelled, rebellion, rebuilt,
    recall*, recollect*, recommended, recorded, recovered, refresh my memory, refused, reign*, rejected, released,
    remember*, remind me how, remind me of, remind me what, remind me when, remind me where, remind me why, remind
    us, reminisc*, renamed, repaired, replied, reported, rescued, researched, resigned, restored, result of the,
    results of the, retired, returned, revolution, robbed, rode, rose, ruined, ruled, sacked, saga, said about, said
    he, said in, said she, said that, said the, said they, sailed, sank, saved, scored, second age, sent, sessions
    back, shared, she bought, she called, she came, she had, she knew, she left, she moved, she once, she paid, she
    played, she saw, she taught, she used, she wanted, she won, she wore, shipped, showed, siege, signed, since
    april, since august, since autumn, since december, since february, since friday, since january, since july,
    since june, since march, since monday, since nineteen, since november, since october, since saturday, since
    september, since spring, since summer, since sunday, since the accident, since the attack, since the fall, since
    the fire, since then, since thursday, since tuesday, since wednesday, since when, since winter, slain, slept, so
    far, sold, sought, spoke, stabbed, stayed, stole, stolen, stone age, story of, struck, studied, submitted,
    succeeded, suggested, summoned, sunk, surrendered, survivors, swore, tale of, tales of, talked, terrorised,
    terrorized, tested, that day, that evening, that morning, that night, that summer, that time, that winter, that
    year, the day before, the day he, the day her, the day his, the day i, the day my, the day of, the day she, the
    day that, the day the, the day they, the day we, the day when, the day you, the evening of, the evening that,
    the evening we, the evening when, the evening you, the first time, the middle ages, the morning he, the morning
    of, the morning she, the morning that, the morning they, the morning we, the morning when, the morning you, the
    night before, the night he, the night her, the night his, the night i, the night my, the night of, the night
    she, the night that, the night the, the night they, the night we, the night when, the night you, the old days,
    the other day, the other night, the other week, the past, the summer of, the summer that, the summer we, the
    summer when, the summer you, the time we, the time when, the time you, the very day, the week before, the week
    of, the week that, the week we, the week when, the week you, the winter of, the winter that, the winter we, the
    winter when, the winter you, the year he, the year i, the year of, the year she, the year that, the year they,
    the year we, the year when, the year you, their death, their first, their past, they bought, they called, they
    came, they had, they knew, they left, they moved, they once, they opened, they paid, they played, they saw, they
    started, they used, they wanted, they won, they wore, third age, this morning, those days, threw, told, took,
    tore, traded, trained, transcript*, transferred, traveled, travelled, treaty, turn out, turned out, uncovered,
    understood, unlocked, until now, uprising, used to, vaccinated, vanished, very first, veteran*, visited, voted,
    wake of, wanted to, war, warned, wars, was anybody, was anyone, was he, was her, was his, was it always, was it
    before, was it ever, was it not, was it really, was it the, was it true, was it when, was married, was once, was
    our, was she, was someone, was that when, was the, was their, was there, was this, was your, wasn't he, wasn't
    it the, wasn't she, wasn't that the, wasn't the, wasn't there, wasn't this the, we bought, we called, we came,
    we cooked, we ended, we got, we had, we knew, we left, we moved, we once, we opened, we ordered, we paid, we
    played, we saw, we started, we used, we wanted, we watched, we won, weeks back, went, wept, were any, were both,
    were our, were the, were there, were these, were they, were those, were we ever, were you a, were you able, were
    you alive, were you at, were you ever, were you in, were you not, were you the, were you there, were you when,
    were you with, were your, weren't the, weren't there, weren't they, weren't we, weren't you, what caused, what
    ended the, what had, what has been, what has changed, what have you been, what started the, what triggered, what
    was, what were, what year, whatever came of, when had, when he was, when i first, when i was, when it was, when
    she was, when they first, when they were, when was, when we first, when we were, when were, when you first, when
    you were, where had, where have you been, where was, where were, whichever year, who, witnessed, worshiped,
    worshipped, wrecked, written, wrote, years back, years before, years later, yesterday, you bought, you called,
    you came, you cooked, you got, you had, you knew, you left, you moved, you once, you opened, you ordered, you
    paid, you played, you saw, you started, you taught, you used, you wanted, you wore, your first, your past
""")
"""Past events: moments, verbs in the past tense, and what history is made of."""
