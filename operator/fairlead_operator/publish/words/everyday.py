"""Openings of everyday speech that begin as a request for a look-up does, and are none: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

EVERYDAY: Final = listed("""
    across the face, across the hall, across the room, across the street, across the table, are from me, are the
    batteries, are the best, are the boys, are the champions, are the children, are the dishes, are the doors, are
    the eggs, are the girls, are the guests, are the kids, are the lights, are the one, are the only, are the
    others, are the potatoes, are there more, are there others, are there seconds, are there snacks, ate too much,
    back in a, back in an, back in bed, back in five, back in line, back in my, back in ten, back in two, back in
    your, broke my, called it a day, came as fast, came here to, came to see you, came true, can i ask, can i be,
    can i borrow, can i bring, can i buy, can i call you, can i come, can i count on, can i do anything, can i do
    something, can i do that, can i drink, can i eat, can i get, can i give you, can i go, can i go first, can i go
    now, can i have, can i hear, can i help, can i hold, can i hug, can i interest, can i join, can i just, can i
    keep it, can i kiss, can i leave, can i listen, can i look, can i offer, can i pay, can i pet, can i say
    something, can i see you, can i show you, can i sit, can i sleep, can i smell, can i speak, can i start, can i
    stay, can i take a seat, can i take your, can i talk, can i taste, can i tell you, can i touch, can i trust, can
    i try, can i use a, can i use the bathroom, can i use your, can i watch, can we be, can we begin, can we come,
    can we continue, can we dance, can we do it, can we do this, can we eat, can we get, can we go, can we have, can
    we help, can we just, can we leave, can we listen, can we meet, can we move on, can we pause, can we play, can
    we please, can we rest, can we sit, can we skip, can we speak, can we start, can we stay, can we stop, can we
    take a break, can we talk, can we trust, can we try, can we turn, can we wait, city lights, come from behind,
    count down, count me, count on, count to, count with, country music, did good, did great, did i do something,
    did i hurt, did i miss, did i say something, did i scare, did i startle, did i wake, did it, did my best, did
    not, did that, did well, did what i, did you bring, did you brush, did you call me, did you eat, did you enjoy,
    did you finish, did you get it, did you hear me, did you hear that, did you just, did you know, did you like,
    did you miss me, did you say, did you see that, did you sleep, did you turn, did you want, did you wash, do i
    amuse, do i come across, do i get a drink, do i get to sit, do i have something, do i have time, do i know you,
    do i look, do i make myself, do i need a coat, do i need a jacket, do i need an umbrella, do i need to bring, do
    i need to dress, do i owe, do i pay you, do i seem, do i sit, do i smell, do i sound, do i still look, do i take
    sugar, do we have a deal, do we have a plan, do we have a problem, do we have any beer, do we have any bread, do
    we have any coffee, do we have any food, do we have any left, do we have any milk, do we have any more, do we
    have enough, do we have everything, do we have time, do you have a minute, do you have a moment, do you have any
    idea, do you have time, do you know how to, do you know what i, do you know what i mean, do you know what you,
    do you know where you, do you know who i am, does anybody, does anyone, does daddy, does everybody, does
    everyone, does he, does it bother, does it feel, does it fit, does it hurt, does it itch, does it look, does it
    matter, does it mean, does it really, does it say, does it smell, does it taste, does it work, does mommy, does
    my breath, does my hair, does my makeup, does my outfit, does my voice, does she, does that bother, does that
    count, does that feel, does that help, does that hurt, does that make, does that make sense, does that mean,
    does that sound, does that suit, does that work, does the trick, does this feel, does this fit, does this go,
    does this help, does this hurt, does this look, does this make sense, does this mean, does this smell, does this
    suit, does this taste, does this work, does your, down by the bar, down by the fire, down by the window, explain
    yourself, fell asleep, fell in love, find a chair, find a place, find a seat, find a table, find a way, find me
    irresistible, find my, find us a table, found it, found you, gave you a, get me a beer, get me a drink, get me a
    glass, get me down, get me out, get me some water, go through the door, go through the window, got the hiccups,
    got the message, have you heard enough, have you heard me, have you seen my, heard about enough, history
    homework, how bad is the pain, how can i help, how can i serve, how do i look, how do i sound, how does it feel,
    how does it look, how does it smell, how does it taste, how does that feel, how does that look, how does that
    sound, how does that taste, how long have you been here, how long have you been up, how long have you been
    waiting, how long is it going, how long is this, how long until dinner, how long until lunch, how long until we,
    how many cups, how many days are there, how many days in, how many days until, how many do you need, how many do
    you want, how many fingers, how many for you, how many grams, how many hours are, how many minutes, how many
    minutes are, how many of you, how many ounces, how many seconds, how many sugars, how many would, how many would
    you like, how much are the, how much do i owe, how much do you charge, how much do you want, how much for, how
    much fun, how much i love, how much i missed, how much is a beer, how much is a quarter, how much is a room, how
    much is an ale, how much is eight, how much is eleven, how much is fifteen, how much is fifty, how much is five,
    how much is forty, how much is four, how much is fourteen, how much is half, how much is it, how much is nine,
    how much is one, how much is seven, how much is six, how much is sixteen, how much is ten, how much is that, how
    much is the ale, how much is the beer, how much is the bread, how much is the room, how much is the soup, how
    much is thirteen, how much is thirty, how much is this, how much is three, how much is twelve, how much is
    twenty, how much is two, how much longer, how much more of, how much to, how much would you like, how should we
    do this, how would you describe, how would you feel, how would you like, how would you phrase, how would you
    say, i remember now, if i ask, if i borrow, if i can help, if i come, if i could, if i had a, if i join, if i
    knew, if i leave, if i may, if i only, if i open, if i sit, if i smoke, if i turn, if i were you, if we go, if
    we hurry, if we leave, if we sit, in history class, in the past tense, is it possible to get some, is it
    possible to have some, is it possible to sit, is it possible to talk, is there a free, is there a problem, is
    there a seat, is there a table for, is there any ale, is there any beer, is there any bread, is there any cake,
    is there any chance you, is there any coffee, is there any food, is there any left, is there any milk, is there
    any more, is there any room, is there any tea, is there any water, is there any wine, is there anybody, is there
    anyone, is there anything i can, is there anything you, is there more, is there room, is there somebody, is
    there someone, is there something i, is there something on, is there something wrong, is there something you,
    knew it, knew that, knew you would, knew you'd, last assistant, last bit, last bite, last but, last chance, last
    cookie, last drink, last line, last name, last of the, last one, last page, last paragraph, last part, last
    piece, last round, last sentence, last sip, last slice, last slide, last song, last word, law of averages, left
    my keys, left my phone, left my wallet, left the keys, left the oven, like in the movies, lived happily, local
    beer, look into my eyes, look into the mirror, may i ask, may i be excused, may i borrow, may i buy you, may i
    come, may i dance, may i go, may i have, may i help, may i interrupt, may i introduce, may i join, may i kiss,
    may i leave, may i offer, may i present, may i say, may i see, may i sit, may i speak, may i suggest, may i take
    your, met my friend, met traveler, met traveller, met you, mountain dew, must i really, nearest exit, paid
    already, rule of thumb, rules of thumb, said the word, saw it coming, saw that, saw you, should we ask, should
    we attack, should we begin, should we bring, should we buy, should we call, should we celebrate, should we
    continue, should we dance, should we do, should we eat, should we follow, should we get, should we go, should we
    have, should we head, should we hide, should we invite, should we keep, should we knock, should we leave, should
    we meet, should we open, should we order, should we play, should we run, should we sit, should we sleep, should
    we split, should we start, should we stay, should we stop, should we take, should we try, should we turn, should
    we wait, should we watch, show me the way, show me what you, show me your face, show me your hands, slept badly,
    slept like, slept terribly, slept well, so far away, so far so good, started raining, tell me about your day,
    tell me about yourself, tell me how i look, tell me how you are, tell me how you feel, tell me if i, tell me if
    you, tell me what i, tell me what to do, tell me what you need, tell me what you think, tell me what you want,
    tell me what's, tell me when i, tell me when to, tell me when you're ready, tell me where it hurts, tell me
    where you, tell me who you are, tell me why you, the capital letter, the capital letters, the capital t, the
    countryside, the hills are alive, the time of my life, they knew it, told you so, took a nap, took forever, took
    you long, took you so long, travel light, travel mug, wanted to ask, wanted to say, wanted to see you, wanted to
    tell you, wanted to thank, was the food, was the movie, was the party, was the traffic, was the wine, was your
    day, was your dinner, was your evening, was your flight, was your lunch, was your morning, was your night, was
    your sleep, was your trip, was your week, was your weekend, we got this, we got to go, we had a good, we had a
    great, we had fun, we left some, we made it, went well, were you asleep, were you joking, were you kidding, were
    you listening, were you serious, were you sleeping, were you talking, what are our chances, what are our drinks,
    what are the chances, what is the big deal, what is the catch, what is the deal, what is the hurry, what is the
    matter, what is the plan, what is the point, what is the problem, what is the rest, what is the rush, what is
    the secret, what is the time, what's in it for me, what's in the bag, what's in the box, what's my name, what's
    my turn, what's on the menu, what's our table, when are we eating, when are we leaving, when are you coming,
    when is breakfast, when is dinner, when is lunch, when is your, when will dinner, when will lunch, when will you
    be, when's breakfast, when's dinner, when's lunch, when's your, where are my glasses, where are my gloves, where
    are my keys, where are my shoes, where are my socks, where do i click, where do i press, where do i put, where
    do i sign, where do i sit, where do i start, where do i tap, where do we go, where do we sit, where do you live,
    where do you think, where do you want, where is everybody, where is everyone, where is my bag, where is my book,
    where is my coat, where is my coffee, where is my drink, where is my hat, where is my jacket, where is my key,
    where is my phone, where is my sword, where is my wallet, where is the bathroom, where is the door, where is the
    exit, where is the kitchen, where is the loo, where is the remote, where is the toilet, where's dinner, where's
    everybody, where's everyone, where's my bag, where's my beer, where's my book, where's my coat, where's my
    coffee, where's my drink, where's my glasses, where's my hat, where's my jacket, where's my key, where's my
    keys, where's my phone, where's my shoes, where's my sword, where's my wallet, where's the bathroom, where's the
    door, where's the exit, where's the kitchen, where's the light switch, where's the loo, where's the remote,
    where's the toilet, where's your, which are you, which color do you, which colour do you, which do you, which
    door, which dress, which flavor, which flavour, which hand, which of these, which of these do you, which of
    those, which of us, which of us goes, which one, which seat, which shirt, which side, which team do you, which
    tie, which way, which would you, who am i, who are all, who are they, who are you, who can blame, who can help
    me, who can say, who can tell, who cares, who dares, who do you, who doesn't, who else, who goes there, who has
    the time, who is at the door, who is calling, who is coming, who is hungry, who is it, who is next, who is
    ready, who is that, who is there, who is thirsty, who is this, who is with, who is with you, who is your, who
    knows, who likes, who needs, who should, who wants, who will, who would like, who wouldn't, who's the best,
    who's the boss, who's the man, whose coat, whose drink, whose is this, whose turn, why are we here, why are we
    stopping, why are we whispering, why are you, why do you always, why do you ask, why do you care, why do you
    keep, why do you look, why do you think, why do you want, why is everybody, why is everyone, why is he, why is
    it so, why is nobody, why is she, why the long face, why would you do that, why would you say, won t, won the
    lottery, you got a, you got a minute, you got it, you got me, you got this, you had enough, you had fun, you had
    me, you knew it, you left me speechless, you paid too
""")
"""Ask for the fast tier: of phrases that begin with the same words the longest counts, as `should we go` does."""
